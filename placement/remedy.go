package placement

import (
	"slices"
	"strings"

	"cantina/resource"
)

// Remedy is the smallest change that would help, in words; empty when waiting is enough
// or nothing is known.
func (r *Refusal) Remedy() string {
	if r.Cell != "" {
		return "" // another cell is tried
	}
	if len(r.Classes) == 0 {
		return "start a cell: cantina cell"
	}
	for _, try := range []struct {
		text   string
		causes []Cause
	}{
		{"", []Cause{CauseResources}},
		{"cantina undrain lets a drained cell take work again", []Cause{CauseEvacuating}},
		{"a cell that is HEALTHY and takes work; cantina cells says what each lacks", []Cause{CauseNotAdmitted, CauseUnavailable}},
		{"a cell that has what is asked for, or asking for less: stack, tags, labels, taints, host, open files, isolation", []Cause{CauseHost, CauseStack, CauseTags, CauseLabels, CauseTaint, CauseOpenFiles, CauseIsolation}},
	} {
		at := slices.IndexFunc(r.Classes, func(c Class) bool { return slices.Contains(try.causes, c.Cause) })
		switch {
		case at < 0:
		case try.text == "":
			return enlarge(r.Classes[at].Short)
		default:
			return try.text
		}
	}
	return ""
}

// enlarge says what would help where resources are short.
func enlarge(short []Shortage) string {
	if len(short) == 0 {
		return "" // waiting is enough
	}
	less, more, some, ever := make([]string, len(short)), make([]string, len(short)), true, true
	for i, s := range short {
		less[i], more[i] = resource.Words(s.Name, s.LargestFree), resource.Words(s.Name, s.Need)
		some = some && s.LargestFree > 0
		ever = ever && s.LargestAll >= s.Need
	}
	text := ""
	if some {
		text = "asking for " + strings.Join(less, ", ") + " at most, or "
	}
	if ever {
		text += "ending other work, or "
	}
	return text + "a cell with " + strings.Join(more, ", ") + " free"
}
