package node

import (
	"context"

	"cantina/executor"
	"cantina/internal/guard"
	"cantina/internal/health"
	"cantina/internal/metric"
	"cantina/leader"
	"cantina/worker"
)

// Metrics is the listener of a process for its metrics, profiles and health.
type Metrics struct {
	*metric.Set
	health *health.Set
	door   *guard.Door
}

// OpenMetrics takes the address. It fails as OpenServer does.
func OpenMetrics(ctx context.Context, l guard.Listener, h *health.Set) (*Metrics, error) {
	d, err := l.Open(ctx)
	if err != nil {
		return nil, err
	}
	return &Metrics{metric.New(), h, d}, nil
}

// Address returns where it listens; Warning reports that it is unprotected.
func (m *Metrics) Address() string { return m.door.Address() }

// Warning reports that the listener is unprotected; empty = protected.
func (m *Metrics) Warning() string { return m.door.Warning }

// Run serves until ctx is done.
func (m *Metrics) Run(ctx context.Context) error {
	mux := guard.NewMux()
	mux.Handle("/", m.Handler())
	m.health.Register(mux)
	return m.door.Serve(ctx, mux)
}

// Close gives the address back, of one that was not run.
func (m *Metrics) Close() error { return m.door.Close() }

func flag(on bool) float64 {
	if on {
		return 1
	}
	return 0
}

// samples are the figures of a server now: those of its term if it leads.
func (s *Server) samples() []metric.Sample {
	s.mu.Lock()
	t := s.term
	s.mu.Unlock()
	served, waiting := s.cells.Calls()
	const calls = "Calls of cells at this server that are not urgent."
	out := []metric.Sample{
		{Name: "cantina_leader", Help: "1 while this server leads.", Value: flag(t != nil)},
		{Name: "cantina_calls", Help: calls, Label: "state", Of: "served", Value: float64(served)},
		{Name: "cantina_calls", Help: calls, Label: "state", Of: "waiting", Value: float64(waiting)},
	}
	if t == nil {
		return out
	}
	return append(out, termSamples(t.Gauges())...)
}

// sampleOf is a sample without a label, and count one of several that differ in their label.
func sampleOf(name, help string, n int) metric.Sample {
	return metric.Sample{Name: name, Help: help, Value: float64(n)}
}

func total(name, help string, n int64) metric.Sample {
	return metric.Sample{Name: name, Help: help, Value: float64(n), Total: true}
}

func count(name, help, of string, n int) metric.Sample {
	return metric.Sample{Name: name, Help: help, Label: "state", Of: of, Value: float64(n)}
}

// sessionStates are all of them, so that none is missing while it has no session.
var sessionStates = [...]worker.State{worker.New, worker.Unhealthy, worker.Healthy, worker.MustDie}

func termSamples(g leader.Gauges) []metric.Sample {
	b, a := g.Board, g.Auction
	const (
		sessions  = "Sessions of cells, by state."
		instances = "Instances of services, by state."
		tasks     = "Tasks, by state."
		calls     = "Placement calls to cells: in progress, ready to be made, and to cells that did not answer the last one."
	)
	out := []metric.Sample{
		count("cantina_instances", instances, "unclaimed", b.Unclaimed),
		count("cantina_instances", instances, "claimed", b.Claimed),
		count("cantina_instances", instances, "running", b.Running),
		count("cantina_instances", instances, "crashed", b.Crashed),
		count("cantina_instances", instances, "suspect", b.Suspect),
		count("cantina_instances", instances, "evacuating", b.Evacuating),
		sampleOf("cantina_instances_desired", "Instances that services want.", b.Desired),
		count("cantina_tasks", tasks, "pending", b.Pending), count("cantina_tasks", tasks, "running", b.TasksRunning),
		count("cantina_tasks", tasks, "completed", b.Completed),
		sampleOf("cantina_tasks_lost", "Tasks whose outcome is lost, not resolved by an operator.", b.Lost),
		sampleOf("cantina_batch_tasks_running", "Batch tasks that run.", g.Batch),
		sampleOf("cantina_callbacks_failed", "Callbacks that are not tried any more.", b.DeadLetters),
		{Name: "cantina_initial_wait", Help: "1 while the initial wait lasts.", Value: flag(g.Waiting)},
		sampleOf("cantina_held_work", "Jobs, tasks and exclusive instances that the initial wait holds.", g.Held),
		sampleOf("cantina_rows_quarantined", "Rows of the store that cannot be read.", g.Quarantined),
		{Name: "cantina_store_writes_suspended", Help: "1 while the store takes no writes.", Value: flag(g.Suspended)},
		sampleOf("cantina_store_queue_transitions", "Transitions that wait for their commit.", g.Uncommitted),
		sampleOf("cantina_store_outbox_transitions", "Committed transitions whose effects are still to be performed.",
			g.Undelivered),
		sampleOf("cantina_placement_queue_items", "Instances and tasks that wait for a cell.", a.Waiting),
		count("cantina_placement_calls", calls, "in_progress", a.Calls),
		count("cantina_placement_calls", calls, "ready", a.Ready),
		count("cantina_placement_calls", calls, "unanswered", a.Silent),
		total("cantina_placement_rounds_total", "Rounds of placements in this term.", int64(a.Rounds)),
		total("cantina_placements_total", "Instances and tasks that got a cell in this term.", int64(a.Placed)),
		total("cantina_placements_granted_total", "Batch tasks that got a cell in this term.", int64(a.Granted)),
		total("cantina_placements_refused_total", "Times that no cell fitted, in this term.", int64(a.Refused)),
		total("cantina_placements_refused_by_cell_total", "Items that a cell did not take, in this term.",
			int64(a.RefusedByCell)),
		total("cantina_placements_unanswered_total", "Items that no cell confirmed in time, in this term.",
			int64(a.Unanswered)),
		sampleOf("cantina_schedules", "Schedules.", g.Schedules.Schedules),
		total("cantina_schedule_runs_total", "Runs that schedules started in this term.", int64(g.Schedules.Started)),
		total("cantina_preemptions_total", "Instances that were stopped for work of higher priority, in this term.",
			int64(a.Preempted)),
	}
	for _, s := range sessionStates {
		out = append(out, count("cantina_sessions", sessions, s.String(), g.Sessions[s]))
	}
	return out
}

// samples are the figures of a cell now.
func (n *Cell) samples() []metric.Sample {
	c, lost := n.exec.Counters(), n.exec.Output().Losses()
	size, _ := n.exec.Output().Usage()
	const (
		lines = "Lines of output that were not stored."
		bytes = "Bytes of output that were not stored."
	)
	of := func(name, help, reason string, v int64) metric.Sample {
		return metric.Sample{Name: name, Help: help, Label: "reason", Of: reason, Value: float64(v), Total: true}
	}
	out := append(sessionSamples([]worker.State{n.cell.State()}), containerSamples(n.exec.List())...)
	return append(out,
		total("cantina_cell_launches_total", "Containers that became RUNNING.", c.Launches),
		total("cantina_cell_kills_total", "Containers that got SIGKILL.", c.Kills),
		metric.Sample{Name: "cantina_cell_log_bytes", Help: "Disk space of stored output.", Value: float64(size)},
		of("cantina_cell_log_dropped_lines_total", lines, "rate_limit", lost.LimitedLines),
		of("cantina_cell_log_dropped_lines_total", lines, "disk", lost.RefusedLines),
		of("cantina_cell_log_dropped_bytes_total", bytes, "rate_limit", lost.LimitedBytes),
		of("cantina_cell_log_dropped_bytes_total", bytes, "disk", lost.RefusedBytes))
}

// samples are the figures of all cells of a simulation.
func (s *Simulation) samples() []metric.Sample {
	var states []worker.State
	var all []executor.Container
	for _, m := range s.cells {
		states = append(states, m.State())
		all = append(all, m.exec.List()...)
	}
	return append(sessionSamples(states), containerSamples(all)...)
}

func sessionSamples(states []worker.State) (out []metric.Sample) {
	n := map[worker.State]int{}
	for _, s := range states {
		n[s]++
	}
	for _, s := range sessionStates {
		out = append(out, count("cantina_cell_sessions",
			"Sessions of this process with a leader, by state as the cell sees it.", s.String(), n[s]))
	}
	return out
}

func containerSamples(all []executor.Container) (out []metric.Sample) {
	n, stuck := map[executor.State]int{}, 0
	for i := range all {
		n[all[i].State]++
		if all[i].Stuck != nil {
			stuck++
		}
	}
	for _, s := range []executor.State{executor.Reserved, executor.Initializing, executor.Created, executor.Running,
		executor.Completed} {
		out = append(out, count("cantina_cell_containers", "Containers of this process, by state.", s.String(), n[s]))
	}
	return append(out, sampleOf("cantina_cell_containers_stuck", "Containers that survive SIGKILL.", stuck))
}
