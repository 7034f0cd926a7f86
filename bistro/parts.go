package bistro

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// asAmount takes a whole number that is not negative.
func asAmount(v any) (int, error) {
	n, err := asInt(v)
	if err == nil && n < 0 {
		return 0, fmt.Errorf("%d is negative", n)
	}
	return n, err
}

// backoff reads a list of growing pauses that may end with "repeat" or "fail". Later elements are ignored.
func (r reader) backoff(to *Backoff) {
	var list []any
	if !get(r, "backoff", asList, &list) {
		return
	}
	t := r.t.at("backoff")
	if len(list) == 0 {
		t.fail(list, "must not be empty")
		return
	}
	var b Backoff
	for i, v := range list {
		at := t.at(strconv.Itoa(i))
		if word, ok := v.(string); ok {
			switch {
			case word == "repeat" && len(b.Seconds) > 0:
				b.Repeat = true
			case word == "repeat":
				at.fail(v, `"repeat" has nothing to repeat`)
				return
			case word != "fail":
				at.fail(v, `must be "repeat" or "fail"`)
				return
			}
			break
		}
		x, isNumber := v.(json.Number)
		n, err := asInt(v)
		switch {
		case !isNumber:
			at.fail(v, "must be a number, not %s", kindOf(v))
		case err != nil:
			at.fail(v, "%v", err)
		case n <= 0 || n > math.MaxInt32:
			at.fail(v, "%s is not positive, or too large", x)
		case len(b.Seconds) > 0 && n <= b.Seconds[len(b.Seconds)-1]:
			at.fail(v, "%d is not greater than the value before", n)
		default:
			b.Seconds = append(b.Seconds, n)
			continue
		}
		return
	}
	*to = b
}

// killOrphans reads false or a negative number (never), true (at once) or seconds.
func (r reader) killOrphans(to **float64) {
	const key = "kill_orphan_tasks_after_sec"
	v, ok := r.of[key]
	if !ok {
		return
	}
	var seconds float64
	switch v := v.(type) {
	case bool:
		if !v {
			*to = nil
			return
		}
	case json.Number:
		x, err := asFloat(v)
		if err != nil {
			r.t.at(key).fail(v, "%v", err)
			return
		}
		if x < 0 {
			*to = nil
			return
		}
		seconds = x
	default:
		r.t.at(key).fail(v, "must be a boolean or a number, not %s", kindOf(v))
		return
	}
	*to = &seconds
}

// subprocess overlays task_subprocess.
func (r reader) subprocess(to *Subprocess) {
	one := r.object("task_subprocess")
	if get(one, "poll_ms", asInt, &to.PollMS); to.PollMS < 1 {
		one.t.at("poll_ms").fail(to.PollMS, "must be at least 1")
		to.PollMS = 10
	}
	get(one, "max_log_lines_per_poll_interval", asInt, &to.MaxLogLines)
	get(one, "parent_death_signal", asInt, &to.ParentDeathSignal)
	if to.ParentDeathSignal < 0 || to.ParentDeathSignal > 64 {
		one.t.at("parent_death_signal").fail(to.ParentDeathSignal, "must be 0 to 64")
		to.ParentDeathSignal = 9
	}
	get(one, "process_group_leader", asBool, &to.GroupLeader)
	get(one, "use_canary_pipe", asBool, &to.Canary)
	groups := one.object("cgroups")
	get(groups, "root", asString, &to.Root)
	get(groups, "slice", asString, &to.Slice)
	if _, ok := groups.of["subsystems"]; ok { // replaces
		to.Subsystems = groups.texts("subsystems")
	}
	get(groups, "kill_without_freezer", asBool, &to.WithoutFreezer)
}

// kill overlays kill_subprocess.
func (r reader) kill(to *Kill) {
	one := r.object("kill_subprocess")
	one.choice("method", &to.Method, "term", "kill", "term_wait_kill")
	get(one, "kill_wait_ms", asAmount, &to.WaitMS)
}
