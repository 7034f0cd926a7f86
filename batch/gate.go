package batch

import (
	"fmt"

	"cantina/internal/text"
)

// Gate is whether the jobs that a job comes after (Job.After) let it start. The zero value is open.
type Gate struct {
	Shut   bool // not yet
	Never  bool // not without a change
	Text   string
	Change string
}

// Before is a job that another one comes after.
type Before struct {
	Name string
	// Exists and Listed: it has a row, and its nodes are those of the newest definition.
	Exists, Listed bool
	// Circle: it comes after the other one, through any chain.
	Circle   bool
	Progress Progress
}

// GateOf returns the gate of a job: the first of the jobs before it that will not be done without a
// change, else the first that is not done. A job without nodes is done.
func GateOf(before []Before) (g Gate) {
	for i := range before {
		switch one := before[i].gate(); {
		case one.Never:
			return one
		case one.Shut && !g.Shut:
			g = one
		}
	}
	return g
}

func (d *Before) gate() Gate {
	shut := func(format string, args ...any) Gate {
		return Gate{Shut: true, Text: "after job " + d.Name + ", " + fmt.Sprintf(format, args...)}
	}
	never := func(change, format string, args ...any) Gate {
		g := shut(format, args...)
		g.Shut, g.Never, g.Change = false, true, change
		return g
	}
	p := &d.Progress
	switch {
	case !d.Exists:
		return never("apply job "+quoted(d.Name)+" again, or remove it from after", "which does not exist")
	case d.Circle:
		return never("remove "+quoted(d.Name)+" from after", "which comes after this one: %s", inCircle)
	case !d.Listed:
		return shut("whose nodes are being listed")
	}
	switch p.State {
	case JobDone, JobEmpty:
		return Gate{}
	case JobInvalid:
		return never("correct job "+quoted(d.Name), "which is invalid: %s", p.Reason)
	case JobFailed:
		if p.Failed == 0 {
			return never("", "which %s", p.Reason)
		}
		return never("cantina job retry "+quoted(d.Name), "which failed on %s", text.Count(p.Failed, "node"))
	case JobDisabled, JobPaused:
		return shut("which is %s", p.State)
	}
	return shut("which is done on %d of %s", p.Done, text.Count(p.Total, "node"))
}

// SetGate sets whether the jobs that a job comes after let it start. The cost is that of its nodes,
// if that has changed.
func (dv *derived) SetGate(name string, g Gate) {
	j := dv.jobs.named[name]
	if j == nil {
		return
	}
	was := j.gate
	if j.gate = g; g.Shut != was.Shut || g.Never != was.Never {
		dv.recheck(j)
	}
}

// Gate returns the gate of a job.
func (js *jobs) Gate(name string) Gate {
	if j := js.named[name]; j != nil {
		return j.gate
	}
	return Gate{}
}
