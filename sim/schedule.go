package sim

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"cantina/cron"
	"cantina/schedule"
	"cantina/scheduler"
	"cantina/task"
	"cantina/worker"
)

// ScheduleMistakes are rules of schedules that a run breaks on purpose.
type ScheduleMistakes struct {
	// CursorApart commits what a firing starts first, and the cursor in a transaction of
	// its own.
	CursorApart bool
	// WallBehindCursor makes a new leader take its wall clock for the cursor, also when it
	// is behind.
	WallBehindCursor bool
	// SignalBeforeCommit sends a signal before its firing is durable.
	SignalBeforeCommit bool
}

// The rows of schedules.
type (
	scheduleKey struct{ name string }
	taskKey     struct{ guid string }
	// firedKey is a note of the checker: what a logical time of a schedule started.
	firedKey struct {
		uid string
		at  int64
	}
)

// firedRow is a task with the uid of the schedule that started it, how many runs that one
// allowed at the time, and the number of that decision.
type firedRow struct {
	*task.Task
	schedule    string
	most, order int
}

// plans is all of a run that concerns schedules. It draws from a source of its own, so
// that a run without schedules stays as it was.
type plans struct {
	w      *world
	rng    *rand.Rand
	wall   []time.Duration // by server: how far its wall clock is off
	frozen time.Duration   // when all wall clocks stopped; 0 = they run
	items  map[schedule.Calendar]cron.Schedule
	berlin *time.Location
	uids   int
	orders int
	boxes  map[string]*box
	sent   map[firedKey]int // signals; of what a restore made unknown, only those sent since
	fired  int
	// restored is the generation of the store that the newest restore made.
	restored int
}

// box is the container of a task.
type box struct {
	guid, schedule string
	most, order    int // of the row
	m              *machine
	proc           worker.Proc
	alive          bool
	// unknown: the store was restored to before it.
	unknown bool
}

// firstWall is what right wall clocks show at the begin: shortly before an hour comes
// twice in Berlin.
func firstWall() time.Time { return time.Date(2026, 10, 25, 0, 59, 0, 0, time.UTC) }

// berlin is the zone of Berlin as far as a run sees it: one hour comes twice. It is made
// here, since a run reads no files.
func berlin() (*time.Location, error) {
	be := binary.BigEndian
	data := append([]byte("TZif"), make([]byte, 16)...) // version 1
	for _, n := range []uint32{0, 0, 0, 1, 2, 9} {      // transitions 1, types 2, letters 9
		data = be.AppendUint32(data, n)
	}
	data = be.AppendUint32(data, uint32(time.Date(2026, 10, 25, 1, 0, 0, 0, time.UTC).Unix()))
	data = append(data, 1) // to the second type
	data = append(be.AppendUint32(data, 7200), 1, 0)
	data = append(be.AppendUint32(data, 3600), 0, 5)
	return time.LoadLocationFromTZData("Europe/Berlin", append(data, "CEST\x00CET\x00"...))
}

func newPlans(w *world) *plans {
	p := &plans{w: w, rng: rand.New(rand.NewPCG(w.cfg.Seed, 0xca1e)), wall: make([]time.Duration, w.cfg.Servers), items: map[schedule.Calendar]cron.Schedule{},
		boxes: map[string]*box{}, sent: map[firedKey]int{}}
	if w.cfg.Schedules == 0 {
		return p
	}
	var err error
	if p.berlin, err = berlin(); err != nil {
		w.fail("setup", "%v", err)
		return p
	}
	w.after(time.Second, p.client)
	w.after(2*time.Second, p.clocks)
	w.after(time.Second, p.sweep)
	for _, m := range w.machines {
		w.after(time.Second+p.between(0, time.Second), func() { p.poll(m) })
	}
	w.after(w.cfg.Faulty+w.cfg.Calm/4, func() { p.frozen = w.now })
	return p
}

func (p *plans) chance(perMille int) bool { return p.rng.IntN(1000) < perMille }

func (p *plans) between(a, b time.Duration) time.Duration {
	return a + time.Duration(p.rng.Int64N(int64(max(b-a, 1))))
}

// now is what the wall clock of a server shows.
func (p *plans) now(server int) time.Time {
	at := p.w.now
	if p.frozen > 0 {
		at = p.frozen // nothing new falls due: what is pending is to be decided
	}
	return firstWall().Add(at + p.wall[server])
}

// clocks steps the wall clock of some server.
func (p *plans) clocks() {
	if p.w.calm {
		clear(p.wall)
		return
	}
	p.w.after(p.between(3*time.Second, 20*time.Second), p.clocks)
	size := []time.Duration{0, time.Second, 20 * time.Second, 90 * time.Second, 20 * time.Second, time.Second}[p.rng.IntN(6)]
	if p.chance(20) {
		size = time.Hour
	}
	if p.chance(500) {
		size = -size
	}
	i := p.rng.IntN(len(p.wall))
	p.wall[i] = size
	p.w.trace("FAULT wall clock of server %d is off by %v", i, size)
}

// calendar reads a calendar once.
func (p *plans) calendar(r *schedule.Row) (cron.Schedule, error) {
	c := r.Definition.Calendar
	if s, ok := p.items[c]; ok {
		return s, nil
	}
	s := cron.Schedule{Zone: time.UTC}
	if c.Zone != "UTC" {
		s.Zone = p.berlin
	}
	it, _, err := c.Item(r.Key, s.Zone, r.Created, firstWall())
	if err != nil {
		return s, fmt.Errorf("calendar %q: %w", c.Line, err)
	}
	s.Item = it
	p.items[c] = s
	return s, nil
}

// times stands for the timetable of a term. The decisions are those of package schedule.
type times struct {
	r         *reign
	p         *plans
	board     *schedule.Board
	tasks     map[string]firedRow // the newest
	committed map[string]firedRow
	flying    map[schedule.Key]int
	writing   map[string]int // rows of tasks under way
}

// newTimes reads the rows as they stand when the term begins.
func newTimes(r *reign) *times {
	p := r.s.w.plans
	t := &times{r: r, p: p, board: schedule.NewBoard(), tasks: map[string]firedRow{}, committed: map[string]firedRow{}, flying: map[schedule.Key]int{}, writing: map[string]int{}}
	var rows []schedule.Row
	for k, v := range r.s.w.store.rows {
		switch k := k.(type) {
		case scheduleKey:
			rows = append(rows, *v.(*schedule.Row))
		case taskKey:
			t.tasks[k.guid], t.committed[k.guid] = v.(firedRow), v.(firedRow)
		}
	}
	slices.SortFunc(rows, func(a, b schedule.Row) int { return a.Compare(b.Key) })
	for _, row := range rows {
		if r.s.w.cfg.ScheduleMistakes.WallBehindCursor {
			row.State.Cursor = t.wall().Truncate(time.Second)
		}
		row.State = schedule.Forgotten(row.State)
		t.put(row)
	}
	return t
}

func (t *times) wall() time.Time { return t.p.now(t.r.s.id) }

func (t *times) put(row schedule.Row) {
	c, err := t.p.calendar(&row)
	if err != nil {
		t.p.w.fail("setup", "%v", err)
	}
	t.board.Put(row, c, err)
}

// run decides what is due, and what is undecided.
func (t *times) run() {
	if t.r.over || t.p.w.cfg.Schedules == 0 {
		return
	}
	now := t.wall()
	for {
		k, ok := t.board.Due(now)
		if !ok {
			break
		}
		t.tick(k, now)
	}
	for _, k := range t.board.Waiting() {
		t.tick(k, now)
	}
}

func (t *times) tick(k schedule.Key, now time.Time) {
	row, _ := t.board.Get(k)
	if row.Definition.Job != nil && t.flying[k] > 0 {
		t.board.Again(k, now.Add(50*time.Millisecond)) // what its job does is known after the commit
		return
	}
	if err := t.step(k, schedule.Tick{}); err != nil {
		t.p.w.fail("I10", "tick of %v: %v", k, err)
	}
}

// step gives one event to a schedule, and hands over what follows in one transition.
func (t *times) step(k schedule.Key, e schedule.Event) error {
	row, ok := t.board.Get(k)
	if !ok {
		return schedule.ErrNotFound
	}
	env := schedule.Env{Now: t.wall(), Runs: func(r schedule.Run) schedule.Answer { return t.runs(&row, r) },
		Free: func(id string) bool { _, taken := t.tasks[id]; return !taken }}
	st, moves, err := t.board.Step(k, e, env)
	if err != nil {
		return err
	}
	d := decision{t: t, row: row}
	for _, m := range moves {
		d.move(m)
	}
	if st.Equal(&row.State) {
		t.board.Update(k, st)
		return nil
	}
	row.State = st
	t.board.Update(k, st)
	d.commit(&row)
	return nil
}

// decision is what one step makes durable.
type decision struct {
	t      *times
	row    schedule.Row
	starts []op
	tasks  []string            // rows of tasks among them
	births []*scheduler.Change // of jobs that are born again
	sends  []firedKey
}

func (d *decision) move(m schedule.Move) {
	switch m := m.(type) {
	case schedule.End:
		d.t.taskEvent(m.ID, task.Cancel{}, d)
	case schedule.Start:
		f := firedKey{d.row.UID, m.Firing.At.UnixNano()}
		d.starts = append(d.starts, op{f, m.ID})
		switch {
		case d.row.Definition.Job != nil:
			want := d.t.p.w.wanted(d.row.Name, nothing)
			want.Job.Owner = d.row.UID
			c, err := d.t.r.sched.Renew(domain, want)
			if err != nil {
				d.t.p.w.fail("contract", "%v is not born again: %v", d.row.Key, err)
				return
			}
			d.births = append(d.births, c)
			d.starts = append(d.starts, d.t.r.opsOf(c.Ops)...)
		case d.row.Definition.Signal != nil:
			d.sends = append(d.sends, f)
		default:
			n, _, err := task.Desire(task.Task{GUID: m.ID, UID: fmt.Sprint(m.ID, "-", d.t.r.term), Domain: d.row.Domain, Definition: d.row.Definition.Task}, d.t.wall())
			if err != nil {
				d.t.p.w.fail("setup", "%v", err)
				return
			}
			most := 1
			if d.row.Definition.Overlap == schedule.OverlapAllow {
				most = d.row.Definition.Max
			}
			d.t.p.orders++
			d.put(firedRow{n, d.row.UID, most, d.t.p.orders})
		}
	}
}

func (d *decision) put(x firedRow) {
	d.t.tasks[x.GUID] = x
	d.t.writing[x.GUID]++
	d.tasks = append(d.tasks, x.GUID)
	d.starts = append(d.starts, op{taskKey{x.GUID}, x})
}

// commit hands the rows over: what starts and the cursor in one transition.
func (d *decision) commit(row *schedule.Row) {
	t := d.t
	t.flying[row.Key]++
	cursor := op{scheduleKey{row.Name}, row}
	if t.p.w.cfg.ScheduleMistakes.SignalBeforeCommit {
		d.send()
	}
	if t.p.w.cfg.ScheduleMistakes.CursorApart && len(d.starts) > 0 {
		t.r.put(item{ops: d.starts, landed: d.born, after: func() {
			d.landed()
			t.r.put(item{ops: []op{cursor}, after: func() { t.flying[row.Key]-- }})
		}})
		return
	}
	t.r.put(item{ops: append(d.starts, cursor), landed: d.born, after: func() {
		t.flying[row.Key]--
		d.landed()
		t.run()
	}})
}

// born tells the scheduler what became of the jobs.
func (d *decision) born(revision int64, err error) {
	for _, c := range d.births {
		c.Done(revision, err)
	}
}

// landed does what waits for the commit.
func (d *decision) landed() {
	for _, guid := range d.tasks {
		d.t.show(guid)
	}
	if !d.t.p.w.cfg.ScheduleMistakes.SignalBeforeCommit {
		d.send()
	}
}

func (d *decision) send() {
	for _, f := range d.sends {
		d.t.p.signal(d.t, d.row.Key, d.row.UID, f)
	}
}

func (t *times) show(guid string) {
	if t.writing[guid]--; t.writing[guid] <= 0 {
		delete(t.writing, guid)
		t.committed[guid] = t.tasks[guid]
	}
}

// runs answers for a run, as the timetable's shell does.
func (t *times) runs(row *schedule.Row, r schedule.Run) schedule.Answer {
	wait := t.r.leader.Wait(t.r.s.local()).Active
	if row.Definition.Job == nil {
		x, ok := t.tasks[r.ID]
		if !ok {
			return schedule.Ended
		}
		return schedule.OfTask(x.Task, t.wall(), t.heard(x.Holder.Proc, wait), t.r.leader.IsDead(worker.Proc(x.Holder.Proc)))
	}
	switch t.r.sched.Running(row.Name, wait) {
	case scheduler.AnswerEnded:
		return schedule.Ended
	case scheduler.AnswerUnknown:
		return schedule.Unknown
	}
	return schedule.Running
}

func (t *times) heard(proc string, wait bool) bool {
	return !wait || slices.ContainsFunc(t.r.leader.Sessions(t.r.s.local()), func(v worker.SessionView) bool {
		return string(v.Proc) == proc && v.Reported && v.State == worker.Healthy
	})
}

// taskEvent gives an event to a task; d takes the row, or it is a transition of its own.
func (t *times) taskEvent(guid string, e task.Event, d *decision) bool {
	x, ok := t.tasks[guid]
	if !ok {
		return false
	}
	n, _, err := task.Step(x.Task, e, task.Env{Now: t.wall(), Eligible: true})
	if err != nil || n == x.Task {
		return false
	}
	x.Task = n
	if d != nil {
		d.put(x)
		return true
	}
	t.tasks[guid] = x
	t.writing[guid]++
	t.r.put(item{ops: []op{{taskKey{guid}, x}}, after: func() {
		t.show(guid)
		t.p.begin(guid)
		t.run()
	}})
	return true
}
