package task

import "fmt"

// String prints the choice as in a spec file.
func (w WhenFull) String() string {
	switch w {
	case WhenFullWait:
		return "wait"
	case WhenFullFail:
		return "fail"
	}
	return fmt.Sprintf("WhenFull(%d)", int(w))
}

// String prints the choice as in a spec file.
func (l OnLost) String() string {
	switch l {
	case LostEnd:
		return "end"
	case LostKeep:
		return "keep"
	}
	return fmt.Sprintf("OnLost(%d)", int(l))
}
