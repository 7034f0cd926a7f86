package spec

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"cantina/action"
	"cantina/internal/text"
)

// literal is a text exactly as in the file: numbers and booleans keep their spelling.
type literal string

func (l *literal) read(n *yaml.Node) (string, string) {
	if n.ShortTag() == "!!null" {
		return "must be a string, not empty", `use ""`
	}
	if !noNUL(n.Value) {
		return "must not contain a NUL byte", "programs cannot receive it"
	}
	*l = literal(n.Value)
	return "", ""
}

func (*literal) form() schema {
	return schema{words: "a string", json: map[string]any{"type": []any{"string", "number", "boolean"},
		"not": map[string]any{"type": "string", "pattern": "\x00"}}}
}

// size is an amount of bytes with its unit.
type size int64

const sizePattern = `^[0-9]{1,9}(\.[0-9]{1,9})?(Ki|Mi|Gi|Ti|k|M|G|T)$`

var sizeForm = regexp.MustCompile(sizePattern)

func (s *size) read(n *yaml.Node) (string, string) {
	if tag := n.ShortTag(); tag == "!!int" || tag == "!!float" {
		return "a size needs a unit, not a bare number", fmt.Sprintf("did you mean %sMi?", n.Value)
	}
	v, ok := ParseSize(n.Value)
	if n.ShortTag() != "!!str" || !ok {
		return "must be a size like 64Mi, not " + kindOf(n), "units are Ki, Mi, Gi, Ti and k, M, G, T"
	}
	*s = size(v)
	return "", ""
}

func (*size) form() schema {
	return schema{words: "a size like 64Mi", json: map[string]any{"type": "string", "pattern": sizePattern}}
}

// ParseSize parses a size like "64Mi" or "1.5G" and returns its bytes, rounded up. A number
// without a unit is an error.
func ParseSize(s string) (bytes int64, ok bool) {
	if !sizeForm.MatchString(s) {
		return 0, false
	}
	i := strings.IndexFunc(s, func(r rune) bool { return r > '9' })
	unit := map[string]float64{"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "k": 1e3, "M": 1e6, "G": 1e9,
		"T": 1e12}[s[i:]]
	v, err := strconv.ParseFloat(s[:i], 64)
	if b := math.Ceil(v * unit); err == nil && b < math.MaxInt64 {
		return int64(b), true
	}
	return 0, false
}

// FormatSize prints bytes in the largest binary unit that divides them.
func FormatSize(bytes int64) string {
	for _, u := range []struct {
		shift int
		name  string
	}{{40, "Ti"}, {30, "Gi"}, {20, "Mi"}, {10, "Ki"}} {
		if bytes != 0 && bytes%(1<<u.shift) == 0 {
			return strconv.FormatInt(bytes>>u.shift, 10) + u.name
		}
	}
	return strconv.FormatInt(bytes, 10) + "B"
}

// mebibytes rounds up, as amounts of memory and disk are counted.
func (s size) mebibytes() int { return int((int64(s) + 1<<20 - 1) >> 20) }

// duration is a span of time with its unit.
type duration time.Duration

const durationPattern = `^([0-9]{1,6}(\.[0-9]{1,9})?(ns|us|ms|s|m|h|d|w))+$`

var (
	durationForm = regexp.MustCompile(durationPattern)
	durationPart = regexp.MustCompile(`([0-9.]+)([a-z]+)`)
)

func (t *duration) read(n *yaml.Node) (string, string) {
	if tag := n.ShortTag(); tag == "!!int" || tag == "!!float" {
		return "a duration needs a unit, not a bare number", fmt.Sprintf("did you mean %ss?", n.Value)
	}
	v, ok := ParseDuration(n.Value)
	if n.ShortTag() != "!!str" || !ok {
		return "must be a duration like 10s, not " + kindOf(n), "units are ns, us, ms, s, m, h, d and w"
	}
	*t = duration(v)
	return "", ""
}

func (*duration) form() schema {
	return schema{words: "a duration like 10s", json: map[string]any{"type": "string", "maxLength": 40,
		"pattern": durationPattern}}
}

// ParseDuration parses a duration like "10s" or "1h30m": Go's form and the units d (24 hours) and
// w, without a sign. A number without a unit is an error.
func ParseDuration(s string) (time.Duration, bool) {
	if len(s) > 40 || !durationForm.MatchString(s) {
		return 0, false
	}
	units := map[string]time.Duration{
		"ns": 1, "us": time.Microsecond, "ms": time.Millisecond, "s": time.Second, "m": time.Minute,
		"h": time.Hour, "d": 24 * time.Hour, "w": 7 * 24 * time.Hour,
	}
	var sum float64
	for _, part := range durationPart.FindAllStringSubmatch(s, -1) {
		v, err := strconv.ParseFloat(part[1], 64)
		if err != nil {
			return 0, false
		}
		sum += v * float64(units[part[2]])
	}
	if sum >= math.MaxInt64 {
		return 0, false
	}
	return time.Duration(math.Round(sum)), true
}

// ParseCPU parses processors like "0.5", "2" or "500m" and returns thousandths, rounded up, at
// most 10000 processors.
func ParseCPU(s string) (milli int, ok bool) {
	var c processors
	n := yaml.Node{Kind: yaml.ScalarNode, Value: s}
	problem, _ := c.read(&n)
	return int(c), problem == ""
}

// processors is an amount of processor time in thousandths.
type processors int

const processorsPattern = `^[0-9]{1,7}m$`

var processorsForm = regexp.MustCompile(processorsPattern)

func (c *processors) read(n *yaml.Node) (string, string) {
	const wrong, hint = "must be a number of processors like 0.5, or 500m, not ", "the maximum is 10000 processors"
	switch tag := n.ShortTag(); {
	case tag == "!!int" || tag == "!!float":
		v, err := strconv.ParseFloat(n.Value, 64)
		if err != nil || !(v >= 0 && v <= 10000) {
			return wrong + kindOf(n), hint
		}
		*c = processors(math.Ceil(v*1000 - 1e-6))
	case tag == "!!str" && processorsForm.MatchString(n.Value):
		v, _ := strconv.Atoi(strings.TrimSuffix(n.Value, "m"))
		*c = processors(v)
	default:
		return wrong + kindOf(n), hint
	}
	return "", ""
}

func (*processors) form() schema {
	return schema{words: "a number of processors like 0.5, or 500m", json: map[string]any{"anyOf": []any{
		map[string]any{"type": "number", "minimum": 0, "maximum": 10000},
		map[string]any{"type": "string", "pattern": processorsPattern},
	}}}
}

// signal is a signal by its name.
type signal int

func (s *signal) read(n *yaml.Node) (string, string) {
	if v := action.SignalNumber(n.Value); n.ShortTag() == "!!str" && v != 0 {
		*s = signal(v)
		return "", ""
	}
	names := action.SignalNames()
	if v, err := strconv.Atoi(n.Value); err == nil {
		if name := action.SignalName(v); name != n.Value {
			return "must be the name of a signal like TERM, not a number", "use " + name
		}
	}
	hint := text.DidYouMean(strings.TrimPrefix(strings.ToUpper(n.Value), "SIG"), names)
	return "must be the name of a signal like TERM, not " + kindOf(n), hint
}

func (*signal) form() schema {
	return schema{words: "the name of a signal", json: map[string]any{"enum": anys(action.SignalNames())}}
}

// enum is one of a few texts. The type parameter lists them.
type enum[C interface{ choices() []string }] struct {
	index int // in choices; the zero value is the first
}

func (e *enum[C]) read(n *yaml.Node) (string, string) {
	var c C
	if i := slices.Index(c.choices(), n.Value); i >= 0 && n.ShortTag() == "!!str" {
		e.index = i
		return "", ""
	}
	return fmt.Sprintf("must be %s, not %s", oneOf(c.choices()), kindOf(n)), text.DidYouMean(n.Value, c.choices())
}

func (*enum[C]) form() schema {
	var c C
	return schema{words: oneOf(c.choices()), json: map[string]any{"enum": anys(c.choices())}}
}

func oneOf(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}

func anys(names []string) []any {
	out := make([]any, len(names))
	for i, n := range names {
		out[i] = n
	}
	return out
}
