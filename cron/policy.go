package cron

import "slices"

// Gap is the handling of matches whose local time does not exist because the clock went forward
// (Bistro cron notes, "DST Fixes").
type Gap uint8

// The policies for gaps. Unskip and Run fire once per gap and item, however
// many of its matches fell into the gap.
const (
	GapUnset  Gap = iota // nothing chosen; a finished item never has it
	GapSkip              // "skip": they do not fire
	GapUnskip            // "unskip": one firing in the last second before the jump
	GapRun               // "run": one firing at the first instant after the jump
)

// String returns the word of the configuration, "" for unset.
func (g Gap) String() string { return [...]string{"", "skip", "unskip", "run"}[g] }

// ParseGap parses "run" or "skip", the words of a crontab line's gap setting; "" is GapUnset.
func ParseGap(s string) (Gap, error) {
	switch s {
	case "":
		return GapUnset, nil
	case "run":
		return GapRun, nil
	case "skip":
		return GapSkip, nil
	}
	return 0, syntax("gap", "%q is neither run nor skip", s)
}

// Fold is the handling of matches whose local time occurs twice because the clock went back.
type Fold uint8

// The policies for folds.
const (
	FoldUnset Fold = iota // nothing chosen; a finished item never has it
	FoldBoth              // "both", repeat_use_both
	FoldFirst             // "first", repeat_use_only_early
	FoldLast              // "last", repeat_use_only_late
)

// String returns the word of a crontab line's fold setting, "" for unset.
func (f Fold) String() string { return [...]string{"", "both", "first", "last"}[f] }

// ParseFold reads "first", "last" or "both"; "" is FoldUnset.
func ParseFold(s string) (Fold, error) {
	switch s {
	case "":
		return FoldUnset, nil
	case "both":
		return FoldBoth, nil
	case "first":
		return FoldFirst, nil
	case "last":
		return FoldLast, nil
	}
	return 0, syntax("fold", "%q is neither first, last nor both", s)
}

// parseFixes reads the mandatory list dst_fixes. The list ["vixie"] names the
// heuristic of Vixie cron instead, and leaves both unset.
func parseFixes(value any) (g Gap, f Fold, vixie bool, err error) {
	const key = "dst_fixes"
	list, ok := value.([]any)
	if !ok {
		return 0, 0, false, syntax(key, "%s is not a list", show(value)).hint(fixesHint)
	}
	if len(list) == 1 && list[0] == "vixie" {
		return 0, 0, true, nil
	}
	for _, e := range list {
		word, _ := e.(string)
		switch i := slices.Index([]string{"skip", "unskip", "repeat_use_both", "repeat_use_only_early",
			"repeat_use_only_late"}, word); {
		case i < 0:
			return 0, 0, false, syntax(key, "%s is unknown", show(e)).hint(fixesHint)
		case i < 2 && g == GapUnset:
			g = []Gap{GapSkip, GapUnskip}[i]
		case i >= 2 && f == FoldUnset:
			f = []Fold{FoldBoth, FoldFirst, FoldLast}[i-2]
		default:
			return 0, 0, false, syntax(key, "%s is one too many", show(e)).hint(fixesHint)
		}
	}
	if g == GapUnset || f == FoldUnset {
		return 0, 0, false, syntax(key, "incomplete").hint(fixesHint)
	}
	return g, f, false, nil
}

const fixesHint = `write one of "skip", "unskip" and one of "repeat_use_both", "repeat_use_only_early", ` +
	`"repeat_use_only_late"; or ["vixie"]`

// Vixie gives the policies by which Vixie cron treats an item: one that runs
// every hour or every minute follows the clock face, any other runs once, at
// the first instant after the gap or in the first pass of the fold.
func Vixie(everyHour, everyMinute bool) (Gap, Fold) {
	if everyHour || everyMinute {
		return GapSkip, FoldBoth
	}
	return GapRun, FoldFirst
}
