package simulate

import "cantina/executor"

// end stops a container, or finds it stuck.
func (e *Executor) end(c *container) {
	switch {
	case c.State == executor.Completed:
	case c.hung && c.Stuck == nil:
		c.Stuck = &executor.Stuck{Since: e.now(), Processes: []executor.StuckProcess{{Pid: 1, Command: "simulated", State: "D", Where: "nowhere"}}}
		e.emit(executor.EventStuck, c)
	case !c.hung:
		c.Result.Stopped, c.Result.ExitCode = true, -1
		e.complete(c)
	}
}

// Hang has a container end only after Release, as one does that hangs in the kernel: once it
// is told to end it is stuck.
func (e *Executor) Hang(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.containers[id].hung = true
}

// Keep has a container outlive the cell's process, as far as List tells.
func (e *Executor) Keep(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.containers[id].Kept = true
}

// Release lets a container go that Hang holds; it ends if it was told to.
func (e *Executor) Release(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.containers[id]
	c.hung = false
	if c.Stuck == nil {
		return
	}
	c.Stuck = nil
	e.end(c)
	if c.delete {
		e.forget(c)
	}
}
