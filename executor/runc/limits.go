package runc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// spareThreads is how many threads runc's own first process may have beside the
// program's limit of processes, until it has become the program.
const spareThreads = 32

// limits are the open files of the v1 control groups, which cannot be reached by name
// once runc's view has been made.
type limits struct {
	procs []*os.File
	pids  *os.File // the limit of processes; nil = none
	most  string   // what it is
}

func openLimits(slots map[string]string) (*limits, error) {
	l := &limits{}
	for controller, dir := range slots {
		f, err := os.OpenFile(filepath.Join(dir, "cgroup.procs"), os.O_WRONLY, 0)
		if err != nil {
			return nil, fmt.Errorf("limit the program: %w", err)
		}
		l.procs = append(l.procs, f)
		if controller != "pids" {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, "pids.max"))
		if err == nil {
			l.most = strings.TrimSpace(string(b))
			l.pids, err = os.OpenFile(filepath.Join(dir, "pids.max"), os.O_WRONLY, 0)
		}
		if err != nil {
			return nil, fmt.Errorf("limit the program: %w", err)
		}
	}
	return l, nil
}

// add puts a process into the limits, with room for the threads that it has before it is
// the program.
func (l *limits) add(pid int) error {
	if n, err := strconv.Atoi(l.most); err == nil {
		if _, err := l.pids.WriteString(strconv.Itoa(n + spareThreads)); err != nil {
			return fmt.Errorf("limit the program: %w", err)
		}
	}
	for _, f := range l.procs {
		if _, err := f.WriteString(strconv.Itoa(pid)); err != nil {
			return fmt.Errorf("limit the program: %w", err)
		}
	}
	return nil
}

// settle takes the room away, and closes the files.
func (l *limits) settle() error {
	var errs []error
	if l.most != "" && l.most != "max" {
		_, err := l.pids.WriteString(l.most)
		errs = append(errs, err)
	}
	for _, f := range append(l.procs, l.pids) {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}
