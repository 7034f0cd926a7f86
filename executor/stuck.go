package executor

import (
	"os"
	"strconv"
	"strings"
)

// describe reads the kernel's data about a process that survives KILL.
func describe(pid int) StuckProcess {
	dir := "/proc/" + strconv.Itoa(pid) + "/"
	s := StuckProcess{Pid: pid, State: "?", Where: "?"}
	if b, err := os.ReadFile(dir + "stat"); err == nil {
		text := string(b)
		i, j := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
		if i >= 0 && j > i && j+2 < len(text) {
			s.Command, s.State = text[i+1:j], text[j+2:j+3]
		}
	}
	if b, err := os.ReadFile(dir + "wchan"); err == nil && len(b) > 0 && string(b) != "0" {
		s.Where = string(b)
	}
	return s
}

func describeAll(pids []int) []StuckProcess {
	out := make([]StuckProcess, len(pids))
	for i, pid := range pids {
		out[i] = describe(pid)
	}
	return out
}
