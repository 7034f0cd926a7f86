package cell

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cantina/executor"
	"cantina/fence"
	"cantina/lrp"
	"cantina/worker"
)

// Addressed checks the cluster of a leader's call before the rest of it is read. A cell without a
// cluster joins that of the first leader that names its process. *Foreign for another cluster,
// ErrProc if the cell has none and does not join this one.
func (c *Cell) Addressed(cluster fence.Cluster, proc worker.Proc) error {
	return c.session.addressed(cluster, proc)
}

// Named checks that a call is addressed to the cell of this name.
func (c *Cell) Named(name worker.CellName) error {
	if name != c.cfg.Name {
		return fmt.Errorf("%w: meant for %q, this is %s", ErrCell, name, c.cfg.Name)
	}
	return nil
}

// Meant checks that a call is addressed to this process, by a leader of no lower term than the
// newest seen. It changes nothing.
func (c *Cell) Meant(t fence.Term, proc worker.Proc) error { return c.session.meant(t, proc) }

// GetRunningTasks returns the batch tasks that this process holds. ErrProc if the call is
// addressed to another process.
func (c *Cell) GetRunningTasks(_ context.Context, q worker.ReportRequest) (worker.Report, error) {
	got := c.session.step(worker.ReportAsked{Call: q})
	if got.report == nil {
		return worker.Report{}, ErrProc
	}
	r := *got.report
	_, _, term := c.session.view()
	r.Alive = c.containers.alive(c.session.joined(), term)
	return r, nil
}

// RunTasks starts batch tasks and probes; one answer for each batch task, in order.
func (c *Cell) RunTasks(_ context.Context, items []RunItem) ([]worker.RunAnswer, error) {
	events := make([]worker.CellEvent, len(items))
	for i, it := range items {
		if it.Work != nil {
			c.batch.runs.put(it.Call.Run, it.Work)
		}
		events[i] = worker.RunAsked{Call: it.Call}
	}
	got := c.session.step(events...)
	for _, it := range items {
		c.batch.runs.take(it.Call.Run)
	}
	return got.runs, nil
}

// NotifyIfTasksNotRunning requests a status of those invocations that are not held.
func (c *Cell) NotifyIfTasksNotRunning(_ context.Context, q worker.Notify) (worker.NotifyAnswer, error) {
	got := c.session.step(worker.NotifyAsked{Call: q})
	if got.notify == nil {
		return worker.NotifyAnswer{}, ErrProc
	}
	return *got.notify, nil
}

// KillTask ends batch invocations; it reports for each whether it is held.
func (c *Cell) KillTask(_ context.Context, calls []worker.KillTask) ([]bool, error) {
	held := make([]bool, len(calls))
	for i, k := range calls {
		held[i] = c.session.step(worker.KillAsked{Call: k}).found
	}
	return held, nil
}

// RequestSuicide ends deadline-bound work, or everything.
func (c *Cell) RequestSuicide(_ context.Context, s worker.Suicide) error {
	c.session.step(worker.SuicideAsked{Call: s})
	return nil
}

// Perform reserves containers and returns the refused items with reasons. Reserved containers are
// claimed, and then run, at once. (Diego dev notes, Starting ActualLRPs.)
func (c *Cell) Perform(_ context.Context, w Work) ([]Refusal, error) {
	if err := c.session.heard(w.Term, w.Proc); err != nil {
		return nil, err
	}
	if err := c.takesWork(); err != nil {
		return refuseAll(w, err), nil
	}
	var refused []Refusal
	var reserved []string
	for _, l := range w.LRPs {
		fresh, err := c.rows.reserveLRP(l, w.Term.Epoch)
		if err != nil {
			refused = append(refused, Refusal{l.Instance, why(err), ofCell(err)})
		} else if fresh {
			reserved = append(reserved, l.Instance)
		}
	}
	for _, t := range w.Tasks {
		fresh, err := c.rows.reserveTask(t, w.Term.Epoch)
		if err != nil {
			refused = append(refused, Refusal{t.UID, why(err), ofCell(err)})
		} else if fresh {
			reserved = append(reserved, TaskContainer(t.UID))
		}
	}
	c.countBound()
	if err := c.stillTakes(w); err != nil {
		for _, id := range reserved {
			c.containers.delete(id)
		}
		return refuseAll(w, err), nil
	}
	for _, id := range reserved {
		c.push(id)
	}
	return refused, nil
}

// stillTakes returns why a new reservation must not be claimed. If the session ended, or the cell
// is leaving, since the check, that step has not seen the reservation, and may have reported that
// no work is left. Later steps see it.
func (c *Cell) stillTakes(w Work) error {
	if err := c.session.heard(w.Term, w.Proc); err != nil {
		return err
	}
	return c.takesWork()
}

// why returns the text of an error for a row: the row already names its work, and the container is
// unknown to its readers.
func why(err error) string {
	var e *executor.CallError
	if errors.As(err, &e) {
		err = e.Err
	}
	return err.Error()
}

// ofCell reports whether the cell is the reason of a refusal, for any work: it is placed on
// another cell at once, and no failure is counted.
func ofCell(err error) bool {
	return errors.Is(err, executor.ErrInsufficient) || errors.Is(err, executor.ErrNoGroup) ||
		errors.Is(err, executor.ErrUnwritable)
}

// takesWork returns why the cell takes no new work now, or nil.
func (c *Cell) takesWork() error {
	if _, on := c.drain.drainState(); on {
		return errors.New("cell is draining")
	}
	if c.leaving.Load() { // before the session knows it
		return errors.New("cell is shutting down")
	}
	return c.session.accepts()
}

func refuseAll(w Work, err error) []Refusal {
	refused := make([]Refusal, 0, len(w.LRPs)+len(w.Tasks))
	for _, l := range w.LRPs {
		refused = append(refused, Refusal{l.Instance, err.Error(), true})
	}
	for _, t := range w.Tasks {
		refused = append(refused, Refusal{t.UID, err.Error(), true})
	}
	return refused
}

// claimLife is how long a reserved container waits for the leader's permission to run it. Each
// poll repeats the request, and a final refusal ends it at once; a leader that is absent for long,
// or that waits for its cells, must not end it.
const claimLife = time.Hour

// Stops is work that a cell is to stop gracefully.
type Stops struct {
	Instances []StopInstance
	Tasks     []string // uids
}

// StopInstance names an instance and the row that it is of.
type StopInstance struct {
	Key      lrp.Key
	Instance string
}

// StopWork stops instances and tasks gracefully; their ends are handled as COMPLETED. Work that is not
// here is no error: its row is checked. Work that cannot be stopped does not prevent the rest.
func (c *Cell) StopWork(_ context.Context, t fence.Term, proc worker.Proc, w Stops) error {
	if err := c.session.heard(t, proc); err != nil {
		return err
	}
	var errs []error
	for _, x := range w.Instances {
		if ct, ok := c.exec.Get(x.Instance); ok {
			if k, _, _ := keyOf(ct.Labels); k != x.Key {
				errs = append(errs, fmt.Errorf("instance %s is of %v, not of %v: %w", x.Instance, k, x.Key, ErrUnknownContainer))
				continue
			}
		}
		errs = append(errs, c.stop(x.Instance))
	}
	for _, uid := range w.Tasks {
		errs = append(errs, c.stop(TaskContainer(uid)))
	}
	return errors.Join(errs...)
}

// stop stops a container; without it, the rows are checked at once.
func (c *Cell) stop(id string) error {
	err := c.exec.Stop(id)
	if errors.Is(err, executor.ErrUnknown) {
		c.polls.pollNow()
		return nil
	}
	return err
}

// SignalInstance sends a signal to the main process of an instance. It returns
// ErrUnknownContainer when it is not here, and the executor's error when it does not run.
func (c *Cell) SignalInstance(_ context.Context, t fence.Term, proc worker.Proc, key lrp.Key, instance string,
	signal int) error {
	if err := c.session.heard(t, proc); err != nil {
		return err
	}
	ct, ok := c.exec.Get(instance)
	if !ok {
		return fmt.Errorf("instance %s: %w", instance, ErrUnknownContainer)
	}
	if k, _, _ := keyOf(ct.Labels); k != key {
		return fmt.Errorf("instance %s is of %v, not of %v: %w", instance, k, key, ErrUnknownContainer)
	}
	return c.exec.Signal(instance, signal)
}

// Drain begins to empty the cell, or takes that back.
func (c *Cell) Drain(_ context.Context, t fence.Term, proc worker.Proc, e Drain) error {
	if err := c.session.heard(t, proc); err != nil {
		return err
	}
	c.setDrain(t, e)
	return nil
}

func describe(ct *executor.Container) string {
	text := heldUp(ct)
	if text == "" {
		text = ct.State.String()
	}
	return whatOf(ct.Labels) + " (" + text + ")"
}

// whatOf returns the public name of a container's work.
func whatOf(l executor.Labels) string {
	switch l[labelKind] {
	case kindLRP:
		return fmt.Sprintf("service %s/%s", l[labelService], l[labelIndex])
	case kindTask:
		return "task " + l[labelTask]
	case "":
		return "containers of an earlier process of this cell"
	}
	w := workOf(l)
	return fmt.Sprintf("job %s on %s", w.Job, w.Node)
}

// heldUp is where a container hangs; empty when it does not.
func heldUp(ct *executor.Container) string {
	switch {
	case ct.Stuck != nil:
		return ct.Stuck.String()
	case ct.Hang != nil:
		return ct.Hang.String()
	}
	return ""
}

// maxConditions limits the conditions that are reported: all hang on the same few mounts.
const maxConditions = 20

// maxStopping limits the ending containers that are reported.
const maxStopping = 200

// ends reports whether a container is being ended.
func ends(ct *executor.Container) bool {
	return ct.State != executor.Completed && (ct.Ending || ct.Decided)
}

// LateAnswer takes the answer to a heartbeat whose call has failed for lack of time: the leader has
// had the heartbeat, and the credit counts from the time it was sent.
func (c *Cell) LateAnswer(a worker.HeartbeatAnswer) { c.session.step(worker.BeatAnswered{Answer: a}) }

// LinkBroken reports that a connection to the leader broke: the cell sends a heartbeat at once. It
// may be called from anywhere and does not wait.
func (c *Cell) LinkBroken() {
	c.vital.Push("link", func(context.Context) { c.session.step(worker.LinkBroken{}) })
}
