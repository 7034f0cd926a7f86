package zone

import (
	"encoding/binary"
	"fmt"
	"strings"
	"time"
)

// ParsePOSIX makes a location from a POSIX TZ string:
//
//	std offset [dst [offset] , start[/time] , end[/time]]
//
// The offset must be added to local time to get UTC: it counts west of Greenwich, so EST5 is
// UTC-05:00 (Boost, which Bistro used, has the opposite sign: Bistro cron notes, "Boost posix
// timezone names are nonstandard"). Daylight time needs its rule; a string without one is refused
// rather than given the rule of the United States. The error is ErrPOSIX with the reason.
func ParsePOSIX(text string) (*time.Location, error) {
	p := posixParser{rest: text}
	spec, err := p.parse()
	if err != nil {
		return nil, fmt.Errorf("%w %q: %w", ErrPOSIX, text, err)
	}
	loc, err := time.LoadLocationFromTZData(text, tzif(spec, text))
	if err != nil {
		return nil, fmt.Errorf("%w %q: %w", ErrPOSIX, text, err)
	}
	return loc, nil
}

// posix is the standard time of a POSIX string; the rest of it is checked here and parsed by
// package time.
type posix struct {
	name   string
	offset int // seconds east of UTC
	dst    bool
}

type posixParser struct{ rest string }

func (p *posixParser) parse() (posix, error) {
	var out posix
	var err error
	if out.name, err = p.name(); err != nil {
		return out, err
	}
	west, err := p.clock("offset", 24)
	if err != nil {
		return out, err
	}
	out.offset = -west
	if p.rest == "" {
		return out, nil
	}
	out.dst = true
	if _, err = p.name(); err != nil {
		return out, err
	}
	if p.rest != "" && p.rest[0] != ',' {
		if _, err = p.clock("offset of daylight time", 24); err != nil {
			return out, err
		}
	}
	if p.rest == "" {
		return out, fmt.Errorf("daylight time has no rule; write one, such as ,M3.2.0,M11.1.0")
	}
	for _, what := range []string{"start", "end"} {
		if err = p.rule(what); err != nil {
			return out, err
		}
	}
	if p.rest != "" {
		return out, fmt.Errorf("%q follows the rule", p.rest)
	}
	return out, nil
}

// name takes a name of three or more letters, or one in angle brackets.
func (p *posixParser) name() (string, error) {
	if inner, ok := strings.CutPrefix(p.rest, "<"); ok {
		name, rest, closed := strings.Cut(inner, ">")
		bad := strings.ContainsFunc(name, func(r rune) bool { return !letter(r) && !digit(r) && r != '+' && r != '-' })
		if !closed || bad || len(name) < 3 {
			return "", fmt.Errorf("%q does not begin with a name in <>", p.rest)
		}
		p.rest = rest
		return name, nil
	}
	n := 0
	for n < len(p.rest) && letter(rune(p.rest[n])) {
		n++
	}
	if n < 3 {
		return "", fmt.Errorf("%q does not begin with a name of three letters", p.rest)
	}
	name := p.rest[:n]
	p.rest = p.rest[n:]
	return name, nil
}

func letter(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }
func digit(r rune) bool  { return r >= '0' && r <= '9' }

// clock takes [+-]h[:m[:s]] and gives seconds.
func (p *posixParser) clock(what string, maxHours int) (int, error) {
	sign := 1
	if p.rest != "" && (p.rest[0] == '+' || p.rest[0] == '-') {
		if p.rest[0] == '-' {
			sign = -1
		}
		p.rest = p.rest[1:]
	}
	total, unit := 0, 3600
	for limit := maxHours; ; limit = 59 {
		n, err := p.number(what, 0, limit)
		if err != nil {
			return 0, err
		}
		total += n * unit
		if unit /= 60; unit == 0 || p.rest == "" || p.rest[0] != ':' {
			break
		}
		p.rest = p.rest[1:]
	}
	if total > maxHours*3600 {
		return 0, fmt.Errorf("the %s is beyond %d hours", what, maxHours)
	}
	return sign * total, nil
}

func (p *posixParser) number(what string, low, high int) (int, error) {
	n, i := 0, 0
	for i < len(p.rest) && i < 4 && digit(rune(p.rest[i])) {
		n = n*10 + int(p.rest[i]-'0')
		i++
	}
	if i == 0 || n < low || n > high {
		return 0, fmt.Errorf("%q: the %s is not a number between %d and %d", p.rest, what, low, high)
	}
	p.rest = p.rest[i:]
	return n, nil
}

// rule takes ,Mm.w.d or ,Jn or ,n, each with an optional /time.
func (p *posixParser) rule(what string) error {
	rest, ok := strings.CutPrefix(p.rest, ",")
	if !ok {
		return fmt.Errorf("the %s of daylight time is missing", what)
	}
	p.rest = rest
	var err error
	switch {
	case strings.HasPrefix(rest, "M"):
		p.rest = rest[1:]
		for i, limit := range [][2]int{{1, 12}, {1, 5}, {0, 6}} {
			if i > 0 {
				if p.rest, ok = strings.CutPrefix(p.rest, "."); !ok {
					return fmt.Errorf("the %s is not of the form Mm.w.d", what)
				}
			}
			if _, err = p.number([]string{"month", "week", "weekday"}[i], limit[0], limit[1]); err != nil {
				return err
			}
		}
	case strings.HasPrefix(rest, "J"):
		p.rest = rest[1:]
		_, err = p.number("day of the year", 1, 365)
	default:
		_, err = p.number("day of the year", 0, 365)
	}
	if err != nil {
		return err
	}
	if rest, ok := strings.CutPrefix(p.rest, "/"); ok {
		p.rest = rest
		_, err = p.clock("time of the "+what, 167)
	}
	return err
}

// tzif writes the smallest file of the format of RFC 9636 that carries the
// string as its footer, which package time then applies to all instants.
func tzif(spec posix, text string) []byte {
	abbrev := spec.name + "\x00"
	block := func(version byte) []byte {
		out := append([]byte("TZif"), version)
		out = append(out, make([]byte, 15)...)
		for _, n := range []int{0, 0, 0, 0, 1, len(abbrev)} { // no transitions, one type
			out = binary.BigEndian.AppendUint32(out, uint32(n))
		}
		out = binary.BigEndian.AppendUint32(out, uint32(int32(spec.offset)))
		out = append(out, 0, 0)
		return append(out, abbrev...)
	}
	out := append(block('2'), block('2')...)
	return append(append(append(out, '\n'), text...), '\n')
}

// describe describes the meaning of a fixed POSIX string, because its sign is unexpected.
func (s posix) describe(text string) string {
	if s.dst {
		return ""
	}
	east := time.Unix(0, 0).In(time.FixedZone("", s.offset)).Format("-07:00")
	return fmt.Sprintf("%s is a POSIX string, whose offset counts west of Greenwich: it means UTC%s", text, east)
}
