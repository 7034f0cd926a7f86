package executor

// runSteps runs a workload that is more than one program.
func (c *container) runSteps() (RunResult, bool) {
	r := RunResult{Failed: true, Reason: "only single programs are supported", ExitCode: -1, Ended: c.e.clock.Wall()}
	return c.conclude(r, nil, 0)
}
