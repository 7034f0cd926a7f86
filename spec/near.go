package spec

import (
	"slices"

	"cantina/internal/text"
	"cantina/label"
	"cantina/lrp"
)

// conditions reads cell_match; the result has the canonical texts.
func conditions(b *builder, p *place, list []string) []string {
	var out []string
	for _, s := range list {
		c, err := label.Parse(s)
		if err != nil {
			b.field(p, "cell_match", text.Shorten(err.Error(), 400), "")
			continue
		}
		out = append(out, c.String())
	}
	return out
}

// neighbours reads the fields that place the instances of a service relative to others.
func neighbours(b *builder, s *service, out *lrp.Desired) {
	seen := map[string]bool{}
	for _, name := range s.SpreadOver {
		if err := lrp.CheckSpread(name); err != nil {
			b.field(&s.place, "spread_over", err.Error(), "")
		}
		if seen[name] {
			b.field(&s.place, "spread_over", name+" is named twice", "remove one")
		}
		seen[name] = true
	}
	if len(s.SpreadOver) != 1 || s.SpreadOver[0] != label.Zone { // the default
		out.Spread = s.SpreadOver
	}
	for _, e := range s.MaxPer {
		if err := lrp.CheckMaxPer(e.key, e.value); err != nil {
			b.field(&s.place, "max_per", err.Error(), "")
		}
		if out.MaxPer == nil {
			out.MaxPer = make(map[string]int, len(s.MaxPer))
		}
		out.MaxPer[e.key] = e.value
	}
	for _, name := range s.ApartFrom {
		if err := out.CheckApart(name); err != nil {
			b.field(&s.place, "apart_from", err.Error(), "")
		}
	}
	out.ApartFrom = slices.Compact(slices.Sorted(slices.Values(s.ApartFrom)))
}
