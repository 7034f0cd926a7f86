package api_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"cantina/api"
	"cantina/batch"
	"cantina/event"
	"cantina/fault"
	"cantina/logstore"
	"cantina/lrp"
	"cantina/plan"
	"cantina/task"
	pb "cantina/wire/cantinav1"
)

const out, errs = pb.LogStream_LOG_STREAM_STDOUT, pb.LogStream_LOG_STREAM_STDERR

func web(index int) map[string]string {
	return map[string]string{"kind": "lrp", "domain": "d", "service": "web", "index": fmt.Sprint(index)}
}

func texts(ls []*pb.OutputLine) string {
	var all []string
	for _, l := range ls {
		switch {
		case l.Gap != nil:
			all = append(all, fmt.Sprintf("gap %d", l.Gap.Bytes))
		case len(l.Raw) > 0:
			all = append(all, fmt.Sprintf("%s:%q", l.Source, l.Raw))
		default:
			all = append(all, l.Source+":"+l.Text)
		}
	}
	return strings.Join(all, " ")
}

func TestOutputIsMergedAndPaged(t *testing.T) {
	w := newWorld(t)
	w.apply(t, demo)
	for i := range 6 {
		w.Logs.Write(fmt.Sprintf("c%d", i%2), fmt.Sprintf("i%d", i%2), web(i%2), out, fmt.Sprint(i))
	}
	w.Logs.Write("c0", "x", map[string]string{"service": "other"}, out, "not mine")
	w.Logs.Write("c0", "i0", web(0), errs, "bad \xff")
	w.Logs.Lose("c1", "i1", web(1), 77)
	q := &pb.ReadOutputRequest{Query: &pb.OutputQuery{Domain: "d", Service: "web"}, Page: &pb.Page{Limit: 3}}
	var got []string
	for {
		page, err := api.Call(t.Context(), w.client, calls.ReadOutput, q)
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Lines) == 0 {
			break
		}
		got = append(got, texts(page.Lines))
		q.Page.Cursor = page.Next
	}
	if s := strings.Join(got, " "); s != `web/0:0 web/1:1 web/0:2 web/1:3 web/0:4 web/1:5 web/0:"bad \xff" gap 77` {
		t.Fatal(s)
	}
	tail, err := api.Call(t.Context(), w.client, calls.ReadOutput,
		&pb.ReadOutputRequest{Query: &pb.OutputQuery{Domain: "d", Service: "web", Tail: 3, Stream: []string{"stdout"}}})
	if err != nil || texts(tail.Lines) != "web/0:4 web/1:5 gap 77" {
		t.Fatalf("tail: %v, %v", tail, err)
	}
	if _, body := w.get(t, "GET", "/v1/output?service=web&domain=d&index=0&raw", "", ""); body != "0\n2\n4\nbad \xff\n" {
		t.Fatalf("raw: %q", body)
	}
}

// TestOutputAtALine: a page begins at the position of a line, or ends before it, on every cell.
func TestOutputAtALine(t *testing.T) {
	w := newWorld(t)
	w.apply(t, demo)
	for i := range 9 {
		w.Logs.Write(fmt.Sprintf("c%d", i%2), fmt.Sprintf("i%d", i%2), web(i%2), out, fmt.Sprint(i))
	}
	read := func(at int64, backward bool, limit int32) []*pb.OutputLine {
		t.Helper()
		p, err := api.Call(t.Context(), w.client, calls.ReadOutput, &pb.ReadOutputRequest{
			Query: &pb.OutputQuery{Domain: "d", Service: "web", At: at, Backward: backward}, Page: &pb.Page{Limit: limit}})
		if err != nil {
			t.Fatal(err)
		}
		return p.Lines
	}
	all := read(0, false, 100)
	if len(all) != 9 || texts(read(1, false, 100)) != texts(all) || len(read(1, true, 100)) != 0 {
		t.Fatalf("%v", all)
	}
	for i, l := range all {
		if got := read(l.Position, false, 3); texts(got) != texts(all[i:min(9, i+3)]) {
			t.Errorf("at %d: %s", i, texts(got))
		}
		if got := read(l.Position, true, 3); texts(got) != texts(all[max(0, i-3):i]) {
			t.Errorf("before %d: %s", i, texts(got))
		}
	}
	if _, body := w.get(t, "GET", fmt.Sprintf("/v1/output?service=web&domain=d&at=%d&limit=1", all[4].Position), "",
		""); !strings.Contains(body, fmt.Sprintf(`"position":"%d"`, all[4].Position)) {
		t.Errorf("%s", body)
	}
	if _, body := w.get(t, "GET", "/v1/output?service=web&domain=d&at=-1", "", ""); !strings.Contains(body, "query.at") {
		t.Errorf("%s", body)
	}
}

func TestACellThatIsSilentIsNamedAndLosesNothing(t *testing.T) {
	w := newWorld(t)
	w.apply(t, demo)
	w.Logs.Write("c0", "i0", web(0), out, "a")
	w.Logs.Write("c1", "i1", web(1), out, "b")
	w.Logs.Cut("c1", errors.New("no route"))
	q := &pb.ReadOutputRequest{Query: &pb.OutputQuery{Domain: "d", Service: "web"}}
	page, err := api.Call(t.Context(), w.client, calls.ReadOutput, q)
	if err != nil || texts(page.Lines) != "web/0:a" || len(page.Missing) != 1 ||
		!strings.Contains(page.Missing[0], "c1: no route") {
		t.Fatalf("%v, %v", page, err)
	}
	w.Logs.Cut("c1", nil)
	q.Page = &pb.Page{Cursor: page.Next}
	if page, err = api.Call(t.Context(), w.client, calls.ReadOutput, q); err != nil || texts(page.Lines) != "web/1:b" {
		t.Fatalf("%v, %v", page, err)
	}
}

func TestFollowEndsWithItsTask(t *testing.T) {
	w := newWorld(t)
	w.apply(t, demo)
	labels := map[string]string{"kind": "task", "task": "d.once"}
	w.Logs.Write("c0", "t-1", labels, out, "one")
	var got []string
	ended := false
	err := w.client.FollowOutput(t.Context(), &pb.FollowOutputRequest{Query: &pb.OutputQuery{Task: "d.once"}},
		func(m *pb.FollowOutputResponse) error {
			ended = m.End
			for _, l := range m.Lines {
				got = append(got, l.Text)
				switch l.Text {
				case "one":
					w.Logs.Write("c0", "t-1", labels, out, "two")
				case "two":
					// The last line is written just before the end is committed.
					w.Logs.Write("c0", "t-1", labels, out, "three")
					w.SetTask("d.once", func(x *task.Task) { x.State, x.Outcome = task.Completed, task.Succeeded })
				}
			}
			return nil
		})
	if err != nil || !ended || strings.Join(got, " ") != "one two three" {
		t.Fatalf("got %v, ended %v, %v", got, ended, err)
	}
}

func TestFollowOfAnEndedJobReadsAllAndEnds(t *testing.T) {
	w := newWorld(t)
	w.apply(t, demo)
	for i := range 1200 {
		w.Logs.Write(fmt.Sprintf("c%d", i%3), fmt.Sprint("b", i),
			map[string]string{"kind": "batch", "domain": "d", "job": "j", "node": fmt.Sprint(i)}, out, fmt.Sprint(i))
	}
	w.SetJob("d/j", func(j *plan.Job) {
		j.NodesKnown, j.Progress = true, batch.Progress{State: batch.JobDone, Total: 2, Done: 2}
	})
	n := 0
	err := w.client.FollowOutput(t.Context(), &pb.FollowOutputRequest{Query: &pb.OutputQuery{Domain: "d", Job: "j"}},
		func(m *pb.FollowOutputResponse) error {
			for _, l := range m.Lines {
				if l.Text != fmt.Sprint(n) || l.Source != fmt.Sprintf("j[%d]", n) {
					t.Errorf("line %d is %v", n, l)
				}
				n++
			}
			return nil
		})
	if err != nil || n != 1200 {
		t.Fatalf("%d lines, %v", n, err)
	}
}

func TestFollowResumesAndSeesCellsThatJoin(t *testing.T) {
	w := newWorld(t)
	w.apply(t, demo)
	w.Logs.Write("c0", "i0", web(0), out, "old")
	w.Logs.Write("c0", "i0", web(0), out, "newest")
	var got []string
	q := &pb.FollowOutputRequest{Query: &pb.OutputQuery{Domain: "d", Service: "web", Tail: 1}}
	err := w.client.FollowOutput(t.Context(), q, func(m *pb.FollowOutputResponse) error {
		if len(m.Missing) > 0 {
			t.Error(m.Missing) // the cell is back at once
		}
		for _, l := range m.Lines {
			got = append(got, l.Source+":"+l.Text)
			switch l.Text {
			case "newest":
				w.Logs.Write("c1", "i1", web(1), out, "joined")
			case "joined":
				w.Logs.Cut("c0", errors.New("gone"))
				w.Logs.Write("c1", "i1", web(1), out, "while cut")
			case "while cut":
				w.Logs.Cut("c0", nil)
				w.Logs.Write("c0", "i0", web(0), out, "back")
			case "back":
				return api.Stop()
			}
		}
		return nil
	})
	if err != nil || strings.Join(got, " ") != "web/0:newest web/1:joined web/1:while cut web/0:back" {
		t.Fatalf("%v, %v", got, err)
	}
}

// TestTheCursorOfAFollowerForgetsCells: it does not grow with each cell that ever had output, and
// keeps the place of those that left last.
func TestTheCursorOfAFollowerForgetsCells(t *testing.T) {
	w := newWorld(t)
	w.apply(t, demo)
	label := map[string]string{"task": "d.once"}
	const cells, kept = 300, 100
	for i := range cells {
		w.Logs.Write(fmt.Sprintf("c%03d", i), "x", label, out, "first")
	}
	lines, later := 0, 0
	q := &pb.FollowOutputRequest{Query: &pb.OutputQuery{Task: "d.once"}}
	err := w.client.FollowOutput(t.Context(), q, func(m *pb.FollowOutputResponse) error {
		if lines += len(m.Lines); lines < cells {
			return nil
		}
		place, err := logstore.ParsePlace(m.Cursor)
		if err != nil {
			return err
		}
		switch {
		case later == 0:
			if len(place) != cells {
				t.Errorf("the cursor names %d cells, not %d", len(place), cells)
			}
			for i := 1; i < cells; i++ {
				w.Logs.Leave(fmt.Sprintf("c%03d", i))
			}
		case len(place) <= kept+1:
			if len(place) != kept+1 || place["c000"] == "" || place["c001"] != "" || place[fmt.Sprintf("c%03d", cells-1)] == "" {
				t.Errorf("the cursor names %d cells: %v", len(place), place)
			}
			return api.Stop()
		case later > 1000:
			t.Errorf("the cursor still names %d cells", len(place))
			return api.Stop()
		}
		later++
		w.Hub.Publish(0, event.Event{Kind: event.Task, Subject: "d.once"}) // has the cells looked at again
		w.Logs.Write("c000", "x", label, out, "later")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestFollowReportsACellThatStaysAwayOnce: a cell that answers again soon is not reported, because
// no output is missing then; one that stays away is reported once.
func TestFollowReportsACellThatStaysAwayOnce(t *testing.T) {
	for name, stays := range map[string]bool{"a moment": false, "longer": true} {
		for _, tail := range []int32{0, 5} {
			t.Run(fmt.Sprint(name, " tail ", tail), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				w.apply(t, demo)
				w.Logs.Write("c0", "i0", web(0), out, "early")
				w.Logs.Write("c1", "i1", web(1), out, "first")
				w.Logs.Cut("c0", errors.New("cell c0: no route"))
				mend := func() {
					w.Logs.Cut("c0", nil)
					w.Logs.Write("c0", "i0", web(0), out, "back")
				}
				var missing []string
				q := &pb.FollowOutputRequest{Query: &pb.OutputQuery{Domain: "d", Service: "web", Tail: tail}}
				err := w.client.FollowOutput(t.Context(), q, func(m *pb.FollowOutputResponse) error {
					if missing = append(missing, m.Missing...); stays && len(m.Missing) > 0 {
						mend()
					}
					for _, l := range m.Lines {
						switch {
						case l.Text == "first" && !stays:
							mend()
						case l.Text == "back":
							return api.Stop()
						}
					}
					return nil
				})
				var want []string
				if stays {
					want = []string{"cell c0: no route"}
				}
				if err != nil || !slices.Equal(missing, want) {
					t.Errorf("%q, want %q, %v", missing, want, err)
				}
			})
		}
	}
}

// unproven is a leader that cannot prove at times that it leads.
type unproven struct {
	api.Services
	api.Tasks
	api.Jobs
	unproven atomic.Bool
}

func (d *unproven) err() error {
	if d.unproven.Load() {
		return fault.ErrTermOver
	}
	return nil
}

func (d *unproven) GetService(k lrp.ServiceKey) (plan.Service, error) {
	x, err := d.Services.GetService(k)
	return x, errors.Join(d.err(), err)
}

func (d *unproven) GetTask(guid string) (plan.Task, error) {
	if err := d.err(); err != nil {
		return plan.Task{}, err
	}
	return d.Tasks.GetTask(guid)
}

func (d *unproven) GetJob(name string) (plan.Job, error) {
	x, err := d.Jobs.GetJob(name)
	return x, errors.Join(d.err(), err)
}

// TestOutputNeedsNoProofOfTheLease: cells have the output. A reader or follower of an existing
// resource is not stopped because the leader's proof is late; only if a cell does not answer
// either, the error asks for a retry.
func TestOutputNeedsNoProofOfTheLease(t *testing.T) {
	for name, q := range map[string]*pb.OutputQuery{"service": {Domain: "d", Service: "web"}, "task": {Task: "d.once"},
		"job": {Domain: "d", Job: "j"}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.apply(t, demo)
			d := &unproven{Services: w.Fake, Tasks: w.Fake, Jobs: w.Fake}
			b := w.Backend()
			b.Services, b.Tasks, b.Jobs = d, d, d
			w.server.Lead(b)
			labels := map[string]map[string]string{"service": web(0), "task": {"kind": "task", "task": "d.once"},
				"job": {"kind": "batch", "domain": "d", "job": "j", "node": "1"}}[name]
			write := func(s string) { w.Logs.Write("c0", "i0", labels, out, s) }
			read := &pb.ReadOutputRequest{Query: q}
			d.unproven.Store(true)
			if _, err := api.Call(t.Context(), w.client, calls.ReadOutput, read); !isTermOver(err) {
				t.Errorf("nothing to read: %v", err)
			}
			write("one")
			if page, err := api.Call(t.Context(), w.client, calls.ReadOutput, read); err != nil || len(page.Lines) != 1 {
				t.Errorf("read: %v, %v", page, err)
			}
			w.Logs.Cut("c0", errors.New("no route"))
			if _, err := api.Call(t.Context(), w.client, calls.ReadOutput, read); !isTermOver(err) {
				t.Errorf("cell cut: %v", err)
			}
			w.Logs.Cut("c0", nil)
			d.unproven.Store(false)
			var got []string
			err := w.client.FollowOutput(t.Context(), &pb.FollowOutputRequest{Query: q}, func(m *pb.FollowOutputResponse) error {
				if m.End {
					t.Error("the stream ended with its leader's proof")
				}
				for _, l := range m.Lines {
					switch got = append(got, l.Text); l.Text {
					case "one":
						d.unproven.Store(true)
						write("two")
					case "two":
						write("three")
					case "three":
						return api.Stop()
					}
				}
				return nil
			})
			if err != nil || strings.Join(got, " ") != "one two three" {
				t.Errorf("followed %v, %v", got, err)
			}
		})
	}
}

// TestFollowGoesOnWithTheNextLeader: a term that is over never reports an end. A follower of a
// service, a task or a job is sent on, loses no line, and ends when the next leader reports the
// end.
func TestFollowGoesOnWithTheNextLeader(t *testing.T) {
	for name, q := range map[string]*pb.OutputQuery{"service": {Domain: "d", Service: "web"}, "task": {Task: "d.once"},
		"job": {Domain: "d", Job: "j"}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.apply(t, demo)
			d := &unproven{Services: w.Fake, Tasks: w.Fake, Jobs: w.Fake}
			old, next := w.Backend(), w.Backend()
			old.Services, old.Tasks, old.Jobs = d, d, d
			old.Events = event.New(0, w.Hub.Newest().Revision, clock)
			w.server.Lead(old)
			labels := map[string]map[string]string{"service": web(0), "task": {"kind": "task", "task": "d.once"},
				"job": {"kind": "batch", "domain": "d", "job": "j", "node": "1"}}[name]
			write := func(s string) { w.Logs.Write("c0", "i0", labels, out, s) }
			write("one")
			var got []string
			ended := false
			err := w.client.FollowOutput(t.Context(), &pb.FollowOutputRequest{Query: q}, func(m *pb.FollowOutputResponse) error {
				ended = m.End
				for _, l := range m.Lines {
					switch got = append(got, l.Text); l.Text {
					case "one":
						d.unproven.Store(true)
						w.server.Lead(next)
						old.Events.Close()
						write("two")
					case "two":
						w.SetTask("d.once", func(x *task.Task) { x.State, x.Outcome = task.Completed, task.Succeeded })
						w.SetJob("d/j", func(j *plan.Job) {
							j.NodesKnown, j.Progress = true, batch.Progress{State: batch.JobDone, Total: 2, Done: 2}
						})
						if name == "service" { // it ends with its reader alone
							ended = true
							return api.Stop()
						}
					}
				}
				return nil
			})
			if err != nil || !ended || strings.Join(got, " ") != "one two" {
				t.Errorf("followed %v, ended %v, %v", got, ended, err)
			}
		})
	}
}

func isTermOver(err error) bool {
	var e *api.Error
	return errors.As(err, &e) && e.Code == "term_over"
}

// TestOutputOutlivesItsSubject: the output of a removed service or job is found by its name while
// it is kept; an unknown name is not found.
func TestOutputOutlivesItsSubject(t *testing.T) {
	w := newWorld(t)
	w.Logs.Write("c0", "i0", web(1), out, "last words")
	w.Logs.Write("c0", "b", map[string]string{"kind": "batch", "domain": "d", "job": "gone", "node": "n"}, out,
		"node's last words")
	for _, q := range []*pb.OutputQuery{{Domain: "d", Service: "web"}, {Domain: "d", Service: "web", Index: new(int32(1))},
		{Domain: "d", Job: "gone"}, {Domain: "d", Job: "gone", Node: "n"}} {
		page, err := api.Call(t.Context(), w.client, calls.ReadOutput, &pb.ReadOutputRequest{Query: q})
		if err != nil || len(page.Lines) != 1 {
			t.Errorf("%v: %v, %v", q, page, err)
		}
		n := 0
		err = w.client.FollowOutput(t.Context(), &pb.FollowOutputRequest{Query: q},
			func(m *pb.FollowOutputResponse) error { n += len(m.Lines); return nil })
		if err != nil || n != 1 {
			t.Errorf("follow %v: %d lines, %v", q, n, err)
		}
		none := &pb.OutputQuery{Domain: q.Domain, Service: q.Service, Job: q.Job, Index: q.Index, Node: q.Node,
			Stream: []string{"stderr"}}
		if page, err := api.Call(t.Context(), w.client, calls.ReadOutput, &pb.ReadOutputRequest{Query: none}); err != nil ||
			len(page.Lines) != 0 {
			t.Errorf("%v: %v, %v", none, page, err)
		}
	}
	for _, q := range []*pb.OutputQuery{{Domain: "other", Service: "web"},
		{Domain: "d", Service: "web", Index: new(int32(2))}, {Domain: "d", Job: "never"},
		{Domain: "d", Job: "gone", Node: "m"}, {Domain: "e", Job: "gone", Node: "n"}, {Task: "never"}} {
		_, err := api.Call(t.Context(), w.client, calls.ReadOutput, &pb.ReadOutputRequest{Query: q})
		var e *api.Error
		if !errors.As(err, &e) || e.Code != "not_found" {
			t.Errorf("%v: %v", q, err)
		}
	}
}

// TestEventsComeAgainAfterACallThatMayBeRepeated: a reader whose own call failed temporarily gets
// the same event again; another error ends the stream.
func TestEventsComeAgainAfterACallThatMayBeRepeated(t *testing.T) {
	w := newWorld(t)
	var got []string
	q := &pb.StreamEventsRequest{Since: w.Hub.Newest().String(), Kind: []string{"task"}}
	w.apply(t, demo)
	over := errors.New("enough")
	err := w.client.Events(t.Context(), q, func(m *pb.StreamEventsResponse) error {
		if m.Event == nil {
			return nil
		}
		if got = append(got, m.Event.Subject); len(got) < 3 {
			return &api.Error{Code: "term_over", Message: "late", Detail: &pb.ErrorDetail{}}
		}
		return over
	})
	if !errors.Is(err, over) || strings.Join(got, " ") != "d.once d.once d.once" {
		t.Errorf("%v, %v", got, err)
	}
}

// TestAFilteredStreamReportsItsRevision: a reader up to now ends there, with any filter, and
// does not wait for a heartbeat or a passing event.
func TestAFilteredStreamReportsItsRevision(t *testing.T) {
	w := newWorld(t)
	start := w.Hub.Newest()
	w.apply(t, demo)
	now := w.Hub.Newest()
	if now.Compare(start) <= 0 {
		t.Fatal("nothing has happened")
	}
	for _, q := range []*pb.StreamEventsRequest{{}, {Kind: []string{"task"}}, {Kind: []string{"cell"}},
		{Domain: "another"}, {Subject: "nothing"}} {
		q.Since = start.String()
		ctx, cancel := context.WithTimeout(t.Context(), api.Heartbeat/3)
		last := start
		err := w.client.Events(ctx, q, func(m *pb.StreamEventsResponse) error {
			at, err := event.ParsePosition(m.Position)
			if err != nil || at.Compare(last) < 0 {
				t.Errorf("%v: %q after %v, %v", q, m.Position, last, err)
			}
			if last = at; m.Event == nil && at.Compare(now) >= 0 {
				return api.Stop()
			}
			return nil
		})
		cancel()
		if err != nil || last.Compare(now) != 0 {
			t.Errorf("%v: came to %v of %v, %v", q, last, now, err)
		}
	}
}
