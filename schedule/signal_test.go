package schedule

import (
	"errors"
	"strings"
	"testing"
	"time"

	"cantina/task"
)

// signalled is a schedule of a signal.
func signalled(t *testing.T) *situation {
	x := begin(t, hourly, Policy{})
	x.def.Task, x.def.Signal = nil, &Signal{Service: "web", Number: 1}
	return x
}

// newest is the newest line of the history in words.
func (x *situation) newest() string {
	if n := len(x.s.History); n > 0 {
		return x.s.History[n-1].String()
	}
	return ""
}

// TestASignalIsOneMoveAndOneLine: it leaves no run, so no run blocks it.
func TestASignalIsOneMoveAndOneLine(t *testing.T) {
	x := signalled(t)
	x.at("01:00").step(Tick{})
	if len(x.moves) != 1 || len(x.s.Live) != 0 || x.s.Fired != 1 {
		t.Fatalf("moves %v, state %+v", x.moves, x.s)
	}
	if got := x.newest(); got != "signal being sent" {
		t.Fatal(got)
	}
	x.step(Tick{})
	if len(x.moves) != 0 {
		t.Fatalf("sent again: %v", x.moves)
	}
	x.step(Delivered{At: x.time("01:00"), Delivery: Delivery{Of: 3, Reached: 2,
		Missed: []string{"instance 1 on cell c: it cannot be reached"}}})
	if got := x.newest(); got != "signal sent to 2 of 3; not reached: instance 1 on cell c: it cannot be reached" ||
		len(x.moves) != 0 {
		t.Fatal(got, x.moves)
	}
	x.step(Delivered{At: x.time("01:00"), Delivery: Delivery{Of: 9, Reached: 9}}) // reported once
	if got := x.newest(); !strings.Contains(got, "2 of 3") {
		t.Fatal(got)
	}
	x.at("02:00").step(Tick{})
	if len(x.moves) != 1 || x.s.Fired != 2 {
		t.Fatalf("%v, %+v", x.moves, x.s)
	}
}

// TestASignalOfALostLeaderIsNeverSentAgain: the next leader only reports it.
func TestASignalOfALostLeaderIsNeverSentAgain(t *testing.T) {
	x := signalled(t)
	x.at("01:00").step(Tick{})
	before := x.s
	x.s = Forgotten(x.s)
	if got := x.newest(); got != "signal sent at most once; the leader ended before it recorded the outcome" {
		t.Fatal(got)
	}
	if before.History[0].Text != "" {
		t.Fatal("the older state was changed")
	}
	x.at("01:30").step(Tick{})
	if len(x.moves) != 0 {
		t.Fatal(x.moves)
	}
	if _, _, err := Step(x.s, Fire{At: x.time("01:00")}, x.env()); !errors.Is(err, ErrFired) ||
		!strings.Contains(err.Error(), "sent at most once") {
		t.Fatal(err)
	}
	if _, _, err := Step(x.s, Backfill{From: born().Add(-time.Hour), To: x.now, Max: 3}, x.env()); !errors.Is(err,
		ErrInvalid) {
		t.Fatal(err)
	}
	x.step(Fire{})
	if got := x.newest(); got != "signal being sent, by hand" || len(x.moves) != 1 {
		t.Fatal(got, x.moves)
	}
}

func TestTextOfADelivery(t *testing.T) {
	for want, d := range map[string]Delivery{
		"sent to 3 of 3":                                     {Of: 3, Reached: 3},
		"not sent: no running instance":                      {},
		"not sent: there is no service x":                    {Problem: "there is no service x"},
		"sent to 1 of 6; not reached: a; b; c; and 2 more":   {Of: 6, Reached: 1, Missed: []string{"e", "c", "a", "d", "b"}},
		"sent to 0 of 1; not reached: instance 0 on cell c1": {Of: 1, Missed: []string{"instance 0 on cell c1"}},
	} {
		if got := d.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestASignalNeedsItsOwnPolicies(t *testing.T) {
	good := Definition{Calendar: Calendar{Line: hourly}, Signal: &Signal{Service: "web", Number: 1}}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Definition){
		"task too":     func(d *Definition) { d.Task = &task.Definition{} },
		"no service":   func(d *Definition) { d.Signal = &Signal{Number: 1} },
		"no signal":    func(d *Definition) { d.Signal = &Signal{Service: "web"} },
		"signal 65":    func(d *Definition) { d.Signal = &Signal{Service: "web", Number: 65} },
		"replace":      func(d *Definition) { d.Overlap = OverlapReplace },
		"misfire: all": func(d *Definition) { d.Misfire = MisfireAll },
	} {
		d := good
		change(&d)
		if err := d.Validate(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
