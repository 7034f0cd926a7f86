package placement

import (
	"slices"
	"strings"

	"cantina/resource"
)

// Remedy describes the smallest change that would help; empty if waiting is enough or nothing is
// known.
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
		{"accept work again on a drained cell: cantina undrain", []Cause{CauseDraining}},
		{"make a cell HEALTHY and available; see cantina cells", []Cause{CauseNotAdmitted, CauseUnavailable}},
		{"start a cell with another value of that label, or raise max_per", []Cause{CauseLimit}},
		{"start another cell that matches, or remove apart_from", []Cause{CauseApart}},
		{"allow the directory on a cell: cantina cell --volumes DIRECTORY", []Cause{CauseVolumes}},
		{"start a cell that matches, or relax the request: stack, tags, labels, taints, host, open " +
			"files, isolation", []Cause{CauseHost, CauseStack, CauseTags, CauseLabels, CauseTaint, CauseOpenFiles,
			CauseIsolation}},
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

// enlarge describes a remedy for missing resources.
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
		text = "ask for " + strings.Join(less, ", ") + " at most, or "
	}
	if ever {
		text += "end other work, or "
	}
	return text + "add a cell with " + strings.Join(more, ", ") + " free"
}
