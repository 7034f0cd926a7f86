package main

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"cantina/api"
	pb "cantina/wire/cantinav1"
	"cantina/worker"
)

// TestCellsThatAreGoneAreListedBelowTheLiving: lost cells always, deregistered ones with --all;
// both by name too, with the reason and the fate of their work.
func TestCellsThatAreGoneAreListedBelowTheLiving(t *testing.T) {
	s := newShell(t)
	s.SetCell(api.Cell{Name: "c1", Proc: "p1", Session: worker.Healthy, Reported: true, Since: time.Now()})
	gone := func(name string, g api.Gone) {
		s.SetCell(api.Cell{Name: worker.CellName(name), Proc: worker.Proc("p" + name), Session: worker.MustDie, Gone: &g})
	}
	gone("c3", api.Gone{At: time.Now(), Why: "it was silent", Work: "2 tasks lost"})
	gone("c4", api.Gone{At: time.Now(), Left: true, Why: "deregistered", Work: "nothing was left on it"})
	got := s.ok("cells")
	if !strings.Contains(got, "LOST") || !strings.Contains(got, "it was silent; 2 tasks lost") ||
		strings.Contains(got, "c4") || strings.Index(got, "c1") > strings.Index(got, "c3") {
		t.Error(got)
	}
	if got := s.ok("cells", "--all"); !strings.Contains(got, "LEFT") ||
		!strings.Contains(got, "deregistered; nothing was left on it") {
		t.Error(got)
	}
	if got := s.ok("cells", "-o", "json"); !strings.Contains(got, `"aftermath": "2 tasks lost"`) ||
		!strings.Contains(got, `"session": "LOST"`) {
		t.Error(got)
	}
	if got := s.ok("cells", "c4"); !strings.Contains(got, "LEFT") {
		t.Error(got)
	}
	s.fails(api.ExitNotFound, "cantina cells --all", "explain", "cell/c9")
}

// TestADrainedCellThatIsSilentHasNoCount: its remaining work is unknown, and shown as last
// reported.
func TestADrainedCellThatIsSilentHasNoCount(t *testing.T) {
	s := newShell(t)
	const silent = "the cell is UNHEALTHY: no heartbeat"
	for want, d := range map[string]api.Drain{
		"; 0 left: kernel": {},
		"; 2 left: kernel": {Waits: []string{"a", "b"}},
		": kernel; the work left is not known: " + silent + "; declared dead in 60s": {Unknown: silent},
		": kernel; 1 left at its last report, now not known: " + silent + "; declared": {
			Unknown: silent, Waits: []string{"a"}},
	} {
		d.Reason, d.Until = "kernel", now().Add(time.Hour)
		x := api.Cell{Name: "c1", Proc: "p1", Session: worker.Healthy, Reported: true, Since: now(), Drain: &d}
		if d.Unknown != "" {
			x.Session, x.DeadIn = worker.Unhealthy, time.Minute
		}
		s.SetCell(x)
		if got := s.ok("cells", "c1"); !strings.Contains(got, want) {
			t.Errorf("%s: no %q", got, want)
		}
	}
}

// TestExplainReportsWhyThereAreNoEvents: those of an earlier leader are not known.
func TestExplainReportsWhyThereAreNoEvents(t *testing.T) {
	for want, x := range map[string]*pb.ExplainResponse{
		"cell/c1 is HEALTHY, as wanted\nno events since 2027-01-15T08:00:00Z; only the newest of this leader's term " +
			"are kept\n": {EventsSince: timestamppb.New(now())},
		"cell/c1 is HEALTHY, as wanted\n": {}, // an older server
		"cell/c1 is HEALTHY, as wanted\nevents\n  2027-01-15T08:00:00Z      joined\n": {EventsSince: timestamppb.New(now()),
			Events: []*pb.Event{{Time: timestamppb.New(now()), Text: "joined"}}},
	} {
		x.State, x.Fine = "HEALTHY", true
		var out strings.Builder
		c := &cli{environment: environment{Out: &out}, printing: printing{zone: time.UTC}}
		if err := printExplanation(c, subject{kind: "cell", name: "c1"}, x); err != nil || out.String() != want {
			t.Errorf("%v, %q", err, out.String())
		}
	}
}

// TestExplainShowsAChangeOnce: an event without a visible change is left out, and the progress of
// a rollout is shown.
func TestExplainShowsAChangeOnce(t *testing.T) {
	event := func(kind, subject, text string) *pb.Event {
		return &pb.Event{Time: timestamppb.New(now()), Kind: kind, Subject: subject, Text: text}
	}
	rolling := func(healthy int32) *pb.Event {
		return &pb.Event{Time: timestamppb.New(now()), Kind: "service", Subject: "web",
			Service: &pb.Service{Name: "web", Phase: "rolling out", Healthy: healthy, Instances: 2}}
	}
	x := &pb.ExplainResponse{State: "steady", Fine: true,
		Events: []*pb.Event{rolling(0), event("instance", "web/0", "stopping"), rolling(0),
			event("instance", "web/1", "stopping"),
			event("instance", "web/0", "stopping"), rolling(1), event("instance", "web/0", "gone"), event("instance", "web/0",
				"stopping")}}
	var out strings.Builder
	c := &cli{environment: environment{Out: &out}, printing: printing{zone: time.UTC}}
	if err := printExplanation(c, subject{kind: "service", name: "web"}, x); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range strings.Split(out.String(), "\n") {
		if at := strings.Index(l, "Z      "); at > 0 {
			got = append(got, l[at+7:])
		}
	}
	if want := "rolling out: 0 of 2 healthy|stopping|stopping|rolling out: 1 of 2 healthy|gone|stopping"; strings.Join(got,
		"|") != want {
		t.Errorf("%q", got)
	}
}
