package cron

import (
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// Name is a word for a number in a field: a month, a weekday.
type Name struct {
	Text  string // lower case, whole word; any prefix of three or more letters is accepted
	Value int64
}

// Field describes the range of a selector.
type Field struct {
	Key      string // name in JSON and in errors
	Min, Max int64  // both allowed
	Names    []Name // nil = numbers only
}

// Selector chooses numbers of a field: a value, a list, or a range with a
// period (Bistro cron notes, "Crontab items and selectors"). The zero Selector
// matches nothing; make one with [ParseSelector] or [All].
type Selector struct {
	field              Field
	values             []int64 // sorted, without doubles; nil for a range
	start, end, period int64   // of a range; end is the last number that is reached
	backwards          bool    // the end was given before the start
}

// All returns the selector that chooses every number of the field.
func All(f Field) Selector {
	return Selector{field: f, start: f.Min, end: f.Max, period: 1}
}

// rangeOf makes a range. An end before the start leaves only the start, and only for queries from
// before it, as in Bistro (the lint warns about it).
func rangeOf(f Field, start, end, period int64) Selector {
	if end < start {
		return Selector{field: f, start: start, end: start, period: period, backwards: true}
	}
	return Selector{field: f, start: start, end: start + (end-start)/period*period, period: period}
}

func listOf(f Field, values []int64) Selector {
	v := slices.Clone(values)
	slices.Sort(v)
	return Selector{field: f, values: slices.Compact(v)}
}

// Match returns the first chosen number that is at least v, or, with carry, the
// smallest chosen number when v is beyond the last one.
func (s Selector) Match(v int64) (value int64, carry bool) {
	if s.values != nil {
		i, _ := slices.BinarySearch(s.values, v)
		if i == len(s.values) {
			return s.values[0], true
		}
		return s.values[i], false
	}
	switch {
	case s.backwards:
		return s.start, v >= s.start
	case v <= s.start:
		return s.start, false
	case v > s.end:
		return s.start, true
	}
	if past := (v - s.start) % s.period; past > 0 {
		v += s.period - past
	}
	return v, false
}

// First is the smallest chosen number.
func (s Selector) First() int64 {
	if s.values != nil {
		return s.values[0]
	}
	return s.start
}

// Last is the largest chosen number.
func (s Selector) Last() int64 {
	if s.values != nil {
		return s.values[len(s.values)-1]
	}
	return s.end
}

// Everything reports whether the selector selects all of its field.
func (s Selector) Everything() bool {
	if s.values != nil {
		return int64(len(s.values)) == s.field.Max-s.field.Min+1
	}
	return s.start == s.field.Min && s.end == s.field.Max && s.period == 1
}

// Numbers lists the chosen numbers. Do not call it on an epoch selector.
func (s Selector) Numbers() []int64 {
	if s.values != nil {
		return slices.Clone(s.values)
	}
	var out []int64
	for v := s.start; v <= s.end; v += s.period {
		out = append(out, v)
	}
	return out
}

// mask gives the chosen numbers as bits; the field must lie within 0..63.
func (s Selector) mask() uint64 {
	var m uint64
	for _, v := range s.Numbers() {
		m |= 1 << uint(v)
	}
	return m
}

// String gives "*", a list "1,6,7" or a range "start-end:period".
func (s Selector) String() string {
	if s.values != nil {
		parts := make([]string, len(s.values))
		for i, v := range s.values {
			parts[i] = strconv.FormatInt(v, 10)
		}
		return strings.Join(parts, ",")
	}
	if s.Everything() {
		return "*"
	}
	return fmt.Sprintf("%d-%d:%d", s.start, s.end, s.period)
}

// ParseSelector reads a selector from a decoded JSON or YAML value: a number or
// a name; a list of them, the empty list being everything; or an object with
// the optional keys start, end and period. Periods may be written as a string
// of digits. The error is a [*ParseError].
func ParseSelector(f Field, value any) (Selector, error) {
	switch v := value.(type) {
	case []any:
		if len(v) == 0 {
			return All(f), nil
		}
		values := make([]int64, len(v))
		for i, e := range v {
			n, err := f.number(fmt.Sprintf("%s[%d]", f.Key, i), e)
			if err != nil {
				return Selector{}, err
			}
			values[i] = n
		}
		return listOf(f, values), nil
	case map[string]any:
		return f.parseRange(v)
	}
	n, err := f.number(f.Key, value)
	if err != nil {
		return Selector{}, err
	}
	return listOf(f, []int64{n}), nil
}

func (f Field) parseRange(v map[string]any) (Selector, error) {
	start, end, period := f.Min, f.Max, int64(1)
	var err error
	for _, key := range slices.Sorted(maps.Keys(v)) {
		path := f.Key + "." + key
		switch key {
		case "start":
			start, err = f.number(path, v[key])
		case "end":
			end, err = f.number(path, v[key])
		case "period":
			period, err = f.parsePeriod(path, v[key])
		default:
			err = syntax(path, "unknown key").hint("a range has the keys start, end and period")
		}
		if err != nil {
			return Selector{}, err
		}
	}
	return rangeOf(f, start, end, period), nil
}

// parsePeriod allows periods up to the width of the field (maximum minus
// minimum): a longer one would never reach a second value.
func (f Field) parsePeriod(path string, value any) (int64, error) {
	p, ok := integer(value)
	if text, isText := value.(string); isText {
		n, err := strconv.ParseInt(text, 10, 64)
		p, ok = n, err == nil
	}
	if !ok {
		return 0, syntax(path, "%s is not a whole number", show(value))
	}
	if p < 1 || p > f.Max-f.Min {
		return 0, syntax(path, "%d is not a period between 1 and %d", p, f.Max-f.Min)
	}
	return p, nil
}

// number reads one number or name of the field.
func (f Field) number(path string, value any) (int64, error) {
	if text, ok := value.(string); ok {
		return f.named(path, text)
	}
	n, ok := integer(value)
	if !ok {
		return 0, syntax(path, "%s is not a whole number", show(value))
	}
	if n < f.Min || n > f.Max {
		return 0, syntax(path, "%d is not between %d and %s", n, f.Min, f.maxText())
	}
	return n, nil
}

func (f Field) maxText() string {
	if f.Max == math.MaxInt64 {
		return "2^63-1"
	}
	return strconv.FormatInt(f.Max, 10)
}

// named finds a name by any prefix of three or more letters, in any case. A
// prefix that fits names of different values is refused.
func (f Field) named(path, text string) (int64, error) {
	if f.Names == nil {
		return 0, syntax(path, "%q is not a number; this field has no names", text)
	}
	word := strings.ToLower(text)
	var found []Name
	for _, n := range f.Names {
		if n.Text == word {
			return n.Value, nil
		}
		if len(word) >= 3 && strings.HasPrefix(n.Text, word) {
			found = append(found, n)
		}
	}
	for _, n := range found {
		if n.Value != found[0].Value {
			return 0, syntax(path, "%q may be %s or %s", text, found[0].Text, n.Text)
		}
	}
	if len(found) > 0 {
		return found[0].Value, nil
	}
	err := syntax(path, "%q is no name of this field", text)
	words := make([]string, len(f.Names))
	for i, n := range f.Names {
		words[i] = n.Text
	}
	if w := nearest(word, words); w != "" {
		return 0, err.hint("did you mean %q?", w)
	}
	return 0, err.hint("write three or more letters of a name, or a number")
}

// lowest is the index of the lowest bit of m at or above from, -1 without one.
func lowest(m uint64, from int) int {
	m &= ^uint64(0) << uint(from) // nothing, from 64 on
	if m == 0 {
		return -1
	}
	return bits.TrailingZeros64(m)
}
