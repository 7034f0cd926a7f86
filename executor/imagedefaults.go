package executor

import (
	"errors"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"cantina/action"
)

// errNoProgram reports an entry without a command whose image has none either.
var errNoProgram = errors.New("neither the entry nor its image names a program: give a command " +
	"(a directory, and an image without ENTRYPOINT and CMD, have none)")

// applyImage applies the image's defaults to the entry's unset values: the program, its directory
// and its stop signal. (OCI image specification, Config.)
func (fl *files) applyImage() error {
	w, s := &fl.spec.Workload, &fl.image
	if r := w.Action.Run; r != nil && r.Path == "" {
		argv := slices.Concat(s.Entrypoint, s.Cmd)
		if len(argv) == 0 || argv[0] == "" {
			return errNoProgram
		}
		own := *r // the entry's is shared
		own.Path, own.Args = argv[0], argv[1:]
		w.Action.Run = &own
	}
	if s.WorkingDir != "" {
		s.WorkingDir = path.Join("/", s.WorkingDir)
	}
	if t := &w.Termination; t.Signal == 0 && s.StopSignal != "" {
		if t.Signal = signalOf(s.StopSignal); t.Signal == 0 {
			fl.note("STOPSIGNAL %q of the image is no signal: TERM is sent", s.StopSignal)
		}
	}
	return nil
}

// The real-time signals, as programs see them: the first two are the C library's.
const (
	firstRealTime = 34
	lastRealTime  = 64
)

// signalOf reads a signal as images name it: SIGTERM, TERM, 15, SIGRTMIN+3; 0 = none.
func signalOf(text string) int {
	if n, err := strconv.Atoi(text); err == nil {
		if n < 1 || n > lastRealTime {
			return 0
		}
		return n
	}
	name := strings.TrimPrefix(strings.ToUpper(text), "SIG")
	if n := action.SignalNumber(name); n != 0 {
		return n
	}
	if n := unix.SignalNum("SIG" + name); n != 0 {
		return int(n)
	}
	for base, at := range map[string]int{"RTMIN": firstRealTime, "RTMAX": lastRealTime} {
		rest, ok := strings.CutPrefix(name, base)
		if !ok {
			continue
		}
		if rest == "" {
			return at
		}
		n, err := strconv.Atoi(rest) // with its sign
		if err == nil && (rest[0] == '+' || rest[0] == '-') && at+n >= firstRealTime && at+n <= lastRealTime {
			return at + n
		}
	}
	return 0
}
