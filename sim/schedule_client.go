package sim

import (
	"fmt"
	"time"

	"cantina/action"
	"cantina/cron"
	"cantina/schedule"
	"cantina/task"
)

// client is a person with schedules: makes, changes, pauses, runs and fills in, on
// whatever server leads.
func (p *plans) client() {
	p.w.after(p.between(300*time.Millisecond, 2*time.Second), p.client)
	r := p.w.leading()
	if r == nil {
		return
	}
	t := r.times
	t.dead()
	i := p.rng.IntN(p.w.cfg.Schedules)
	k := schedule.Key{Domain: "d", Name: fmt.Sprint("sched-", i)}
	row, ok := t.board.Get(k)
	switch {
	case !ok:
		p.make(t, k, i)
	case p.w.calm && row.State.Paused:
		p.ask(t, k, schedule.Resume{})
	case p.w.calm:
	default:
		p.meddle(t, &row, i)
	}
	t.run()
}

func (p *plans) ask(t *times, k schedule.Key, e schedule.Event) {
	err := t.step(k, e) // refusals are answers
	p.w.trace("client: %T%v of %v: %v", e, e, k, err)
}

func (p *plans) meddle(t *times, row *schedule.Row, i int) {
	now, k := t.wall(), row.Key
	switch p.rng.IntN(12) {
	case 0:
		p.ask(t, k, schedule.Pause{})
	case 1, 2:
		p.ask(t, k, schedule.Resume{})
	case 3, 4:
		p.ask(t, k, schedule.Fire{})
	case 5, 6:
		at := now.Add(time.Duration(p.rng.IntN(60)-40) * time.Second)
		if c, err := t.board.Cron(k); err == nil {
			if next, err := c.Next(at); err == nil && !next.IsZero() {
				at = next
			}
		}
		p.ask(t, k, schedule.Fire{At: at})
	case 7:
		p.ask(t, k, schedule.Backfill{From: now.Add(-time.Minute), To: now, Max: 1 + p.rng.IntN(3)})
	case 8:
		p.edit(t, *row, i)
	case 9:
		if p.chance(300) {
			p.remove(t, row)
		}
	}
}

// make creates a schedule: it never fires for the past.
func (p *plans) make(t *times, k schedule.Key, i int) {
	p.uids++
	now := t.wall()
	row := schedule.Row{Key: k, UID: fmt.Sprint("schedule-", p.uids), Created: now, Edited: now, Definition: p.definition(i), State: schedule.New(now)}
	p.w.trace("client: make %v %s: %+v", k, row.UID, row.Definition.Policy)
	t.put(row)
	t.store(&row)
}

func (t *times) store(row *schedule.Row) {
	t.flying[row.Key]++
	t.r.put(item{ops: []op{{scheduleKey{row.Name}, row}}, after: func() { t.flying[row.Key]-- }})
}

func (p *plans) edit(t *times, row schedule.Row, i int) {
	row.Definition, row.Edited = p.definition(i), t.wall()
	c, err := p.calendar(&row)
	if err != nil {
		p.w.fail("setup", "%v", err)
		return
	}
	st, _, err := schedule.Step(row.State, schedule.Edit{}, schedule.Env{Now: t.wall(), Key: row.Key, Cron: c, Definition: row.Definition})
	if err != nil {
		p.w.fail("I10", "edit: %v", err)
		return
	}
	row.State = st
	p.w.trace("client: edit %v: %+v", row.Key, row.Definition.Policy)
	t.put(row)
	t.store(&row)
}

func (p *plans) remove(t *times, row *schedule.Row) {
	p.w.trace("client: remove %v", row.Key)
	t.board.Delete(row.Key)
	t.r.put(item{ops: []op{{scheduleKey{row.Name}, nil}}})
}

// definition draws a schedule: its number says what it starts, so that an edit does not
// change that.
func (p *plans) definition(i int) *schedule.Definition {
	lines := []schedule.Calendar{
		{Line: "*/2 * * * * *", Zone: "UTC"}, {Line: "*/7 * * * * *", Zone: "UTC"}, {Line: "0,30 * * * * *", Zone: "UTC"},
		{Line: "*/3 0-1 2 * * *", Zone: "Europe/Berlin", Gap: cron.GapRun, Fold: cron.FoldFirst}, {Line: "*/5 0-1 2 * * *", Zone: "Europe/Berlin", Gap: cron.GapSkip, Fold: cron.FoldLast},
	}
	d := &schedule.Definition{Calendar: lines[p.rng.IntN(len(lines))]}
	d.Misfire = []schedule.Misfire{schedule.MisfireOnce, schedule.MisfireSkip, schedule.MisfireAll}[p.rng.IntN(3)]
	d.Overlap = []schedule.Overlap{schedule.OverlapForbid, schedule.OverlapReplace, schedule.OverlapAllow}[p.rng.IntN(3)]
	if p.chance(300) {
		d.Deadline = 5 * time.Second
	}
	if p.chance(300) {
		d.Jitter = 3 * time.Second
	}
	switch i % 3 {
	case 0:
		d.Task = &task.Definition{Workload: action.Workload{Action: action.Action{Run: &action.Run{Path: "/bin/work"}}, Termination: action.Termination{Grace: 3 * time.Second}}}
	case 1:
		d.Job = &schedule.Job{}
		if d.Overlap == schedule.OverlapAllow {
			d.Overlap = schedule.OverlapForbid
		}
	default:
		d.Signal = &schedule.Signal{Service: "web", Number: 1}
		d.Overlap = schedule.OverlapForbid
		if d.Misfire == schedule.MisfireAll {
			d.Misfire = schedule.MisfireOnce
		}
	}
	if d.Overlap == schedule.OverlapAllow {
		d.Max = 2
	}
	if d.Misfire == schedule.MisfireAll {
		d.MisfireMax = 3
	}
	return d
}
