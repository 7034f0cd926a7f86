package simulate

import "cantina/executor"

// end stops a container, or finds it stuck.
func (e *Executor) end(c *container) {
	switch {
	case c.State == executor.Completed:
	case c.hung && c.Stuck == nil:
		c.Stuck = &executor.Stuck{Since: e.now(), Processes: []executor.StuckProcess{{Pid: 1, Command: "simulated",
			State: "D", Where: "nowhere"}}}
		e.emit(executor.EventStuck, c)
	case !c.hung:
		c.Result.Stopped, c.Result.ExitCode = true, -1
		e.complete(c)
	}
}

// Hang makes a container end only after Release, like one that hangs in the kernel: once it is
// stopped it is stuck.
func (e *Executor) Hang(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.containers[id].hung = true
}

// Keep makes a container outlive the cell's process, according to List.
func (e *Executor) Keep(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.containers[id].Kept = true
}

// Release releases a container that Hang holds; it ends if it was stopped.
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
