package batch

import (
	"cmp"
	"strings"

	"cantina/fence"
	"cantina/placement"
	"cantina/resource"
)

// Bits is a batch task's status as a set of Bistro's result bits. The zero value
// is "never started".
type Bits uint16

// The bits of Bistro's statuses.
const (
	Unstarted         Bits = 1 << iota // 1: reports only
	Running                            // 2
	Done                               // 4: final
	Incomplete                         // 8: ran, wants to run again, no error
	Failed                             // 16: final until retried
	Error                              // 32: may run again
	UsesBackoff                        // 64: waits before the next try
	Avoided                            // 128: reports only
	Disabled                           // 256: reports only
	KeepBackoff                        // 512: does not advance the backoff
	Overwriteable                      // 1024: synthetic; a real status replaces it
	HasSavedBackoff                    // 2048: of a lost cell: the job's own value is kept beside the safe one
	currentStatusBits = Running | Done | Incomplete | Failed | Error
)

// MaxData is the largest data of a status, in bytes of JSON text; a larger one is
// refused.
const MaxData = 4096

// Report is the outcome of one invocation: parsed from the task's output, or synthetic without
// output.
type Report struct {
	Bits Bits
	// Data is the JSON object the task gave; stored, not held in memory.
	Data []byte
	// Reason, for errors and synthetic statuses.
	Reason string
	// Moved: its cell ended it to be run again at once.
	Moved bool
	// ExitCode and Signal of the main process; both 0 when it never ran.
	ExitCode, Signal int
}

// Ended is how an invocation's process ended, without its output.
type Ended struct {
	ExitCode, Signal int
	// Killed is set when the cell sent it a signal on request.
	Killed bool
	// TimedOut is set when it was ended by its time limit.
	TimedOut bool
	// Reason of the executor.
	Reason string
	// Again is set when it is the cell's doing that the task did not get to its end.
	Again Again
}

// Again is when a task may run again that its cell did not let get to its end, for no fault
// of the task's own.
type Again int

// The choices.
const (
	AgainNot   Again = iota // it came to its own end, or was ended on request
	AgainNow                // at once, and no retry is counted: the cell is being emptied
	AgainLater              // after the pause that it has reached: the cell cannot make containers
)

// Key is the identity of a batch task.
type Key struct{ Job, Node string }

// Compare orders keys by job, then by node.
func (k Key) Compare(other Key) int {
	return cmp.Or(strings.Compare(k.Job, other.Job), strings.Compare(k.Node, other.Node))
}

// Status is the stored status of one batch task.
type Status struct {
	Bits Bits
	// Time of the status, Unix milliseconds.
	Time int64
	// Backoff is the pause in force (see also Paced), and Saved the job's own value while the pause of
	// a lost cell is in force; seconds.
	Backoff, Saved int
	// Attempts counts invocations that ended in an error since the last success or reset, Losses
	// those whose cell was lost.
	Attempts, Losses int
	// Invocation is the last applied one; replays of it are acknowledged and not counted.
	Invocation       fence.Invocation
	ExitCode, Signal int
	Reason           string
}

// Start is a decision: run this batch task now. The scheduler requests resources on a cell and
// then calls Board.Started, Board.Refuse or Board.Unpick.
type Start struct {
	Key Key
	// Path names the nodes from the root to the task's node.
	Path []string
	// Draws is the amounts that it takes on each level of the path.
	Draws []Draw
	// Cell is the amounts that it takes from its cell.
	Cell resource.Amounts
	// Host is the only machine it may run on; empty = any. Hosts is a filter of machines; nil = all.
	Host  string
	Hosts *placement.Hosts
	// Next is the pause that follows if this attempt ends in an error.
	Next NextBackoff
}

// Draw is the amount that a batch task takes from one node.
type Draw struct {
	Level   string
	Node    string
	Amounts resource.Amounts
}

// NextBackoff is decided when an invocation starts (Bistro RunningTask,
// nextBackoffDuration).
type NextBackoff struct {
	Seconds int
	NoMore  bool // an error now means failed
}
