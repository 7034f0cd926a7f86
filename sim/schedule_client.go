package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"cantina/batch"
	"cantina/bbs"
	"cantina/cron"
	"cantina/fault"
	"cantina/plan"
	"cantina/schedule"
	disk "cantina/store"
	"cantina/task"
	"cantina/worker"
)

// planPrefix begins the names of schedules, and so of their jobs.
const planPrefix = "sched-"

func planKey(i int) schedule.Key {
	return schedule.Key{Domain: domain, Name: fmt.Sprint(planPrefix, i)}
}

// client is a user with schedules: creates, changes, pauses, runs and backfills them, and acts on
// their runs, on any leading server.
func (p *plans) client() {
	p.w.after(p.between(300*time.Millisecond, 2*time.Second), p.client)
	r := p.w.leading()
	if r == nil || r.times == nil {
		return
	}
	r.s.on(func() {
		if r.over {
			return
		}
		i := p.rng.IntN(p.w.cfg.Schedules)
		v, err := r.times.Get(planKey(i))
		switch {
		case errors.Is(err, schedule.ErrNotFound):
			p.apply(r.times, false, i)
		case errors.Is(err, fault.ErrQuarantined): // until an operator has answered
		case err != nil:
			p.w.fail("contract", "%v", err)
		case p.w.calm && v.State.Paused:
			p.pause(r.times, v.Key, false)
		case p.w.calm && p.w.forgotten(r, v.Name):
			p.fire(r.times, v.Key, time.Time{})
		case p.w.calm:
			p.tidy(r)
		default:
			p.meddle(r.times, &v, i)
		}
	})
}

// forgotten reports whether endless work of a job runs that is missing in a restored store: it is
// ended when the job is created again.
func (w *world) forgotten(r *leadership, job string) bool {
	return r.sched.Changeable(job) != nil && slices.ContainsFunc(w.check.all,
		func(c *container) bool { return c.never && c.run.Work.Job == job })
}

// tidy cancels endless work, known or not.
func (p *plans) tidy(r *leadership) {
	r.discard()
	for _, t := range p.w.store.work().tasks {
		if !t.Ended() && p.w.now-p.w.store.rows[bbs.TaskRow(t.GUID)].(*saved).at > 20*time.Second {
			p.cancel(r, t.GUID)
		}
	}
}

func (p *plans) cancel(r *leadership, guid string) {
	p.w.trace("client: cancel %s", guid)
	p.w.customers.cancel(r.board, guid)
}

// ask makes one call, which may wait. A refusal is a response.
func (t *times) ask(what string, fn func(ctx context.Context) error) {
	if refuses(t.p.w) {
		return // the API refuses it
	}
	t.r.threads.run(func() {
		err := fn(context.Background())
		if t.r.dead {
			return
		}
		t.p.w.trace("client: %s: %v", what, err)
		if errors.Is(err, fault.ErrTermOver) && !t.r.over {
			t.p.w.fail("contract", "the timetable gave up in the middle of its term: %v", err)
		}
		for _, fine := range []error{nil, errTermOver, fault.ErrTermOver, schedule.ErrNotFound, schedule.ErrOverlap,
			schedule.ErrFired, schedule.ErrNoTime, schedule.ErrInvalid, fault.ErrQuarantined} {
			if errors.Is(err, fine) {
				return
			}
		}
		t.p.w.fail("contract", "%s is refused: %v", what, err)
	})
}

func (p *plans) pause(t *times, k schedule.Key, paused bool) {
	t.ask(fmt.Sprintf("pause of %v: %v", k, paused),
		func(ctx context.Context) error { return t.PauseSchedule(ctx, k, paused, plan.Write{}) })
}

func (p *plans) meddle(t *times, v *plan.Schedule, i int) {
	k := v.Key
	switch p.rng.IntN(16) {
	case 0:
		p.pause(t, k, true)
	case 1, 2:
		p.pause(t, k, false)
	case 3, 4:
		p.fire(t, k, time.Time{})
	case 5, 6:
		p.fire(t, k, p.moment(t, v))
	case 7:
		to, most := t.wall(), 1+p.rng.IntN(3)
		if len(v.State.Pending) > 3 {
			break // they run one after the other, and all are to have run at the end
		}
		p.once(t, fmt.Sprintf("backfill of %v, at most %d", k, most),
			func(ctx context.Context, t *times, w plan.Write) (string, error) {
				n, err := t.Backfill(ctx, k, to.Add(-time.Minute), to, most, w)
				return fmt.Sprint(n), err
			})
	case 8:
		p.apply(t, false, i)
	case 9:
		if p.chance(300) {
			t.ask(fmt.Sprintf("remove %v", k), func(ctx context.Context) error { return t.RemoveSchedule(ctx, k, plan.Write{}) })
		}
	case 10:
		if p.chance(300) {
			p.applyAll(t)
		}
	case 11, 12:
		p.useRun(t.r, v)
	case 13:
		t.ask(fmt.Sprintf("reset %v", k), func(ctx context.Context) error {
			_, err := t.ResetSchedule(ctx, k, plan.Write{})
			return err
		})
	}
}

// moment is a logical time to run by hand: one to come, one that was missed, one that was
// decided, or any moment.
func (p *plans) moment(t *times, v *plan.Schedule) time.Time {
	switch h := v.State.History; p.rng.IntN(4) {
	case 0:
		if list, err := t.Upcoming(v.Key, 5); err == nil && len(list) > 0 {
			return list[p.rng.IntN(len(list))].At
		}
	case 1:
		if list, _, err := t.ListMissed(v.Key, 20); err == nil && len(list) > 0 {
			return list[p.rng.IntN(len(list))].At
		}
	case 2:
		if len(h) > 0 {
			return h[p.rng.IntN(len(h))].At
		}
	}
	return t.wall().Add(time.Duration(p.rng.IntN(60)-40) * time.Second)
}

func (p *plans) fire(t *times, k schedule.Key, at time.Time) {
	p.once(t, fmt.Sprintf("run of %v for %v", k, at), func(ctx context.Context, t *times, w plan.Write) (string, error) {
		return t.RunSchedule(ctx, k, at, w)
	})
}

// once makes a call, sometimes with a key: then the same call is repeated later, to the present
// leader, and has the same response.
func (p *plans) once(t *times, what string, call func(context.Context, *times, plan.Write) (string, error)) {
	w, made := plan.Write{}, t.r.made
	if p.chance(300) {
		w.Key = p.w.customers.newID("k")
	}
	t.ask(what, func(ctx context.Context) error {
		first, err := call(ctx, t, w)
		if err == nil && !t.r.dead && w.Key != "" {
			p.w.after(p.between(0, 20*time.Second), func() { p.again(made, what, w, first, call) })
		}
		return err
	})
}

func (p *plans) again(made int, what string, w plan.Write, first string,
	call func(context.Context, *times, plan.Write) (string, error)) {
	r := p.w.leading()
	if r == nil || r.made != made || r.times == nil {
		return // a store that went back has forgotten the key
	}
	r.s.on(func() {
		if r.over {
			return
		}
		r.times.ask("repeated "+what, func(ctx context.Context) error {
			second, err := call(ctx, r.times, w)
			if err == nil && !r.dead && r.made == p.w.store.made && second != first {
				p.w.fail("contract", "%s with key %s is answered %q, and was answered %q", what, w.Key, second, first)
			}
			return err
		})
	})
}

// apply makes schedules or changes them; prune removes the others.
func (p *plans) apply(t *times, prune bool, which ...int) {
	var wanted []plan.NamedSchedule
	for _, i := range which {
		wanted = append(wanted, plan.NamedSchedule{Name: planKey(i).Name, Definition: *p.definition(i)})
		p.w.trace("client: apply %v: %v %+v", planKey(i), wanted[len(wanted)-1].Definition.Calendar,
			wanted[len(wanted)-1].Definition.Policy)
	}
	var ttl time.Duration
	if !p.w.calm && p.chance(500) {
		ttl = p.between(3*time.Second, 30*time.Second)
	}
	t.ask(fmt.Sprintf("apply of %d schedules, prune %v", len(wanted), prune), func(ctx context.Context) error {
		_, err := t.r.board.Apply(ctx, plan.Application{Domain: domain, TTL: ttl}, plan.Write{}, func() (disk.Part, error) {
			c, err := t.Apply(domain, wanted, plan.Prune{On: prune})
			if err != nil {
				return disk.Part{}, err
			}
			return c.Part, nil
		})
		return err
	})
}

// applyAll has some schedules as a new file wants them, and removes the others. At times it is too
// large for one transaction.
func (p *plans) applyAll(t *times) {
	var which []int
	for i := range p.w.cfg.Schedules {
		if p.chance(800) {
			which = append(which, i)
		}
	}
	large := p.chance(400)
	t.r.tight = large
	p.apply(t, true, which...)
	t.r.tight = false
	if large {
		t.r.s.later(p.between(0, 80*time.Millisecond), func() { t.r.diesBy(300) }) // in the middle
	}
}

// useRun is a user's action on a run of a schedule.
func (p *plans) useRun(r *leadership, v *plan.Schedule) {
	if v.Definition.Job != nil {
		p.useJob(r.sched, v.Key.String())
		return
	}
	for _, t := range p.w.store.work().tasks {
		if t.Name == v.Name && !t.Ended() && p.chance(500) {
			p.cancel(r, t.GUID)
		}
	}
}

// useJob has a job going, or ending, beside its schedule.
func (p *plans) useJob(s *sched, name string) {
	v, err := s.Job(name)
	switch {
	case s.Changeable(name) != nil || err != nil || v.Removed:
	case v.Paused || p.chance(150):
		p.w.trace("client: pause %s: %v", name, !v.Paused)
		s.change(s.Pause(name, !v.Paused))
	case v.Progress.State == batch.JobFailed && p.chance(500):
		p.w.trace("client: forgive %s", name)
		s.do(s.RetryInSteps(name, batch.NodeFilter{}))
	case v.Progress.State.Ended():
		p.w.trace("client: run %s again", name)
		s.do(s.RerunInSteps(name, batch.NodeFilter{}))
	default:
		s.kill(worker.Work{Job: name, Node: node(p.rng.IntN(p.w.cfg.Nodes))})
	}
}

// mendOwned has the jobs of schedules come to their end after the faults: their schedule
// may be gone, or have no later time that runs them again.
func (s *sched) mendOwned() {
	if !s.r.s.w.calm {
		return
	}
	for _, v := range s.Jobs(plan.NameFilter{}, "", 0) {
		if strings.HasPrefix(v.ShortName(), planPrefix) && !v.Removed {
			s.mend(&v)
		}
	}
}

// definition draws a schedule: its number determines the started work, so that an edit does not
// change that.
func (p *plans) definition(i int) *schedule.Definition {
	lines := []schedule.Calendar{
		{Line: "*/2 * * * * *", Zone: "UTC"}, {Line: "*/7 * * * * *", Zone: "UTC"}, {Line: "0,30 * * * * *", Zone: "UTC"},
		{Line: "*/3 0-1 2 * * *", Zone: "Europe/Berlin", Gap: cron.GapRun, Fold: cron.FoldFirst},
		{Line: "*/5 0-1 2 * * *", Zone: "Europe/Berlin", Gap: cron.GapSkip, Fold: cron.FoldLast},
	}
	d := &schedule.Definition{Calendar: lines[p.rng.IntN(len(lines))]}
	d.Misfire = []schedule.Misfire{schedule.MisfireOnce, schedule.MisfireSkip, schedule.MisfireAll}[p.rng.IntN(3)]
	d.Overlap = []schedule.Overlap{schedule.OverlapForbid, schedule.OverlapReplace, schedule.OverlapAllow}[p.rng.IntN(3)]
	if p.chance(300) || d.Misfire == schedule.MisfireSkip { // the clock is frozen at the end: a queue must be short
		d.Deadline = 5 * time.Second
	}
	if p.chance(300) {
		d.Jitter = 3 * time.Second
	}
	switch i % 3 {
	case 0:
		d.Task = &task.Definition{PendingTimeout: pendingBound, Workload: p.w.customers.workload(50)}
	case 1:
		want := p.w.wanted(planKey(i).String(), nothing)
		d.Job = &schedule.Job{Job: want.Job, Forest: want.Forest}
		if d.Overlap == schedule.OverlapAllow {
			d.Overlap = schedule.OverlapForbid
		}
	default:
		d.Signal = &schedule.Signal{Service: fmt.Sprint("svc-", p.rng.IntN(services)), Number: 1}
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
