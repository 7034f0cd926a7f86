package action

import "strconv"

// namedSignal is a signal that a spec file can name.
type namedSignal struct {
	name   string
	number int // on Linux
}

// namedSignals lists them in the order of the documentation.
func namedSignals() []namedSignal {
	return []namedSignal{
		{"HUP", 1}, {"INT", 2}, {"QUIT", 3}, {"USR1", 10}, {"USR2", 12}, {"TERM", 15}, {"CONT", 18}, {"WINCH", 28},
		{"KILL", 9}, {"ABRT", 6}, {"ALRM", 14}, {"PIPE", 13}, {"STOP", 19},
	}
}

// SignalNames returns the names of the signals that a spec file can name, without SIG.
func SignalNames() []string {
	var out []string
	for _, s := range namedSignals() {
		out = append(out, s.name)
	}
	return out
}

// SignalNumber returns the number of a signal on Linux by its name without SIG, or 0.
func SignalNumber(name string) int {
	for _, s := range namedSignals() {
		if s.name == name {
			return s.number
		}
	}
	return 0
}

// SignalName is the inverse of SignalNumber; a number without a name is printed as such.
func SignalName(number int) string {
	for _, s := range namedSignals() {
		if s.number == number {
			return s.name
		}
	}
	return strconv.Itoa(number)
}
