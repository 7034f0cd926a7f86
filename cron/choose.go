package cron

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// choiceYears is how far ahead a gap or fold makes a choice mandatory.
const choiceYears = 10

// choose sets gap and fold, and refuses to guess if they matter.
func (l *line) choose() error {
	it := l.item
	it.gap, it.fold = l.opt.Gap, l.opt.Fold
	if l.opt.Vixie {
		l.vixie()
	}
	if l.fields[colHour].mask == 1<<24-1 {
		// Such an item means "again and again", not "at two": it follows the
		// clock, in both passes of a repeated hour.
		it.fold = FoldBoth
		if it.gap == GapUnset {
			it.gap = GapSkip
		}
	}
	var missing []string
	c := it.clashes(l.opt.Zone, l.opt.Now)
	if it.gap == GapUnset {
		it.gap = GapRun
		if c.gap.found {
			missing = append(missing, c.gap.text(l.opt.Zone,
				"gap is not set, and %s on %s does not exist in %s: the clock goes from %s to %s; set gap to run (once, "+
					"right after) or skip"))
		}
	}
	if it.fold == FoldUnset {
		it.fold = FoldFirst
		if c.fold.found {
			missing = append(missing, c.fold.text(l.opt.Zone,
				"fold is not set, and %s on %s occurs twice in %s: the clock goes from %s back to %s; set fold to first, "+
					"last or both"))
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%w: %s", ErrChoice, strings.Join(missing, "; "))
	}
	if _, err := it.first(l.opt.Now.Unix(), l.opt.Zone); errors.Is(err, ErrNeverMatches) {
		return err
	}
	return nil
}

func (l *line) vixie() {
	gap, fold := Vixie(l.fields[colHour].star, l.fields[colMinute].star)
	if l.item.gap == GapUnset {
		l.item.gap = gap
	}
	if l.item.fold == FoldUnset {
		l.item.fold = fold
	}
}

// clash is a match that falls into a gap or a fold.
type clash struct {
	found    bool
	label    int64 // the match
	from, to int64 // labels between which the clock jumps
}

// text fills time of day, date, zone and the two sides of the jump into a form.
func (c clash) text(loc *time.Location, form string) string {
	tod := func(label int64) string { return stamp(label)[len("2006-01-02 "):] }
	return fmt.Sprintf(form, tod(c.label), date(c.label), loc, tod(c.from), tod(c.to))
}

// clashes finds the first match in a gap and the first in a fold within the
// next ten years: where a choice matters.
func (it *Item) clashes(loc *time.Location, now time.Time) (found struct{ gap, fold clash }) {
	to := now.AddDate(choiceYears, 0, 0).Unix()
	for s := spanAt(loc, now.Unix()); s.end < to && !(found.gap.found && found.fold.found); {
		next := s.after(loc)
		from, upto := s.end+s.off, s.end+next.off
		if !found.gap.found {
			if label, ok := it.gapLabel(loc, s, next); ok {
				found.gap = clash{true, label, from, upto}
			}
		}
		if !found.fold.found {
			if label := it.firstLabel(upto); label < from {
				found.fold = clash{true, label, from, upto}
			}
		}
		s = next
	}
	return found
}
