package label

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"cantina/fault"
)

// Selector has conditions on the labels of services, tasks, jobs and schedules; all must hold. The zero value selects
// everything.
type Selector []Condition

// SelectorExamples has one example of each comparison, for help and error messages.
const SelectorExamples = "app=web, tier!=db, env in (dev,test), env notin (prod), canary, !canary"

// ParseSelector reads conditions that are separated by commas, in the form of kubectl: app=web,env in (a,b),!canary.
// An empty text selects everything. It returns ErrInvalid.
func ParseSelector(text string) (Selector, error) {
	var out Selector
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	for _, part := range split(text) {
		c, err := parse(written(part))
		if err != nil || c.Op == Version {
			return nil, fmt.Errorf("%w: %q: not understood; conditions look like %s", ErrInvalid, strings.TrimSpace(part),
				SelectorExamples)
		}
		out = append(out, c)
	}
	return out, nil
}

// split cuts a text at the commas outside of parentheses.
func split(text string) (out []string) {
	depth, from := 0, 0
	for i := range len(text) {
		switch text[i] {
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			if depth == 0 {
				out = append(out, text[from:i])
				from = i + 1
			}
		}
	}
	return append(out, text[from:])
}

// written converts the forms of kubectl to those of a condition.
func written(part string) string {
	part = strings.TrimSpace(part)
	if name, ok := strings.CutPrefix(part, "!"); ok && CheckName(strings.TrimSpace(name)) == nil {
		return strings.TrimSpace(name) + " not exists"
	}
	if CheckName(part) == nil {
		return part + " exists"
	}
	name, rest, _ := strings.Cut(part, " ")
	if list, ok := strings.CutPrefix(strings.TrimSpace(rest), "notin"); ok {
		return name + " not in " + list
	}
	return part
}

// Selects reports whether all conditions hold for these labels.
func (s Selector) Selects(labels map[string]string) bool {
	for _, c := range s {
		value, has := labels[c.Name]
		if !c.Holds(value, has) {
			return false
		}
	}
	return true
}

// ErrLabel reports a label that no selector could name.
var ErrLabel = fault.New(fault.ErrInvalid, "invalid label")

// Check returns ErrLabel for a label whose name or value a selector could not express.
func Check(name, value string) error {
	if CheckName(name) != nil {
		return fmt.Errorf("%w: %q: a name has 1 to 128 letters, digits, '-', '_', '.' and '/'", ErrLabel, name)
	}
	bad := func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || strings.ContainsRune(",()=!", r)
	}
	if value == "" || len(value) > 256 || !utf8.ValidString(value) || strings.ContainsFunc(value, bad) {
		return fmt.Errorf("%w: %s: a value has 1 to 256 bytes, without spaces, commas, parentheses, '=' and '!' in it",
			ErrLabel, name)
	}
	return nil
}
