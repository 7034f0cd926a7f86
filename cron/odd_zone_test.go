package cron_test

import (
	"encoding/binary"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// madeZone is a zone with a first offset and its changes, all in seconds, as in a file of zone data.
func madeZone(t testing.TB, first int32, changes []int64, offsets []int32) *time.Location {
	t.Helper()
	head := func(times, types int) []byte {
		b := append([]byte("TZif2"), make([]byte, 15+12)...)
		for _, n := range []int{times, types, 4} { // the name is "odd" for all of them
			b = binary.BigEndian.AppendUint32(b, uint32(n))
		}
		return b
	}
	kind := func(b []byte, off int32) []byte { return append(binary.BigEndian.AppendUint32(b, uint32(off)), 0, 0) }
	b := append(kind(head(0, 1), first), "odd\x00"...) // the part for readers of 32 bits
	b = append(b, head(len(changes), len(offsets)+1)...)
	for _, at := range changes {
		b = binary.BigEndian.AppendUint64(b, uint64(at))
	}
	for i := range changes {
		b = append(b, byte(i+1))
	}
	b = kind(b, first)
	for _, off := range offsets {
		b = kind(b, off)
	}
	loc, err := time.LoadLocationFromTZData("odd", append(b, "odd\x00\n\n"...))
	must(t, err)
	return loc
}

// TestOddZonesAgainstTheObserver draws zones with several changes of the offset within days or hours of each other.
// A label is thus shown three times, or is missing at one border and shown by the next.
func TestOddZonesAgainstTheObserver(t *testing.T) {
	setChecks(t, 400, 5000)
	rapid.Check(t, func(rt *rapid.T) {
		minutes := func(name string, lo, hi int) int64 { return 60 * int64(rapid.IntRange(lo, hi).Draw(rt, name)) }
		offset := func() int32 {
			switch rapid.IntRange(0, 2).Draw(rt, "offset kind") {
			case 0:
				return 3600 * rapid.SampledFrom([]int32{0, 1, 2}).Draw(rt, "usual offset")
			case 1:
				return 3600 * rapid.SampledFrom([]int32{-12, 12, 14}).Draw(rt, "extreme offset")
			}
			return int32(minutes("offset", -720, 840))
		}
		at := int64(1772000000)/60*60 + minutes("first change", 0, 100000)
		first := offset()
		var changes []int64
		var offsets []int32
		for range rapid.IntRange(1, 5).Draw(rt, "changes") {
			changes, offsets = append(changes, at), append(offsets, offset())
			if rapid.Bool().Draw(rt, "soon") {
				at += minutes("until next", 15, 180)
			} else {
				at += minutes("until next", 180, 60*60)
			}
		}
		loc := madeZone(t, first, changes, offsets)
		if _, off := time.Unix(changes[0], 0).In(loc).Zone(); off != int(offsets[0]) {
			rt.Fatalf("the zone has offset %d, want %d", off, offsets[0])
		}
		from := changes[0] - minutes("before", 0, 24*60)
		to := changes[len(changes)-1] + minutes("after", 0, 24*60)
		if rapid.Bool().Draw(rt, "from within") {
			from = changes[0] + minutes("within", 0, int(to-changes[0])/60)
		}
		w := observe(loc, from, max(from, to))
		for range 4 {
			if err := w.check(drawPattern(rt), loc); err != nil {
				rt.Fatalf("%v; first offset %d, then %d at %d", err, first, offsets, changes)
			}
		}
	})
}
