package bistro

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// ErrorTree is the errors in a value, by their places (Bistro, error tree).
type ErrorTree struct {
	Error     string                `json:"error,omitempty"`
	Value     json.RawMessage       `json:"value,omitempty"` // the offending JSON
	Nested    map[string]*ErrorTree `json:"nested,omitempty"`
	KeyErrors map[string]string     `json:"key_errors,omitempty"`
}

func (t *ErrorTree) empty() bool {
	return t == nil || t.Error == "" && len(t.Nested)+len(t.KeyErrors) == 0
}

// at returns the tree of a key or an index.
func (t *ErrorTree) at(key string) *ErrorTree {
	if t.Nested == nil {
		t.Nested = make(map[string]*ErrorTree)
	}
	if t.Nested[key] == nil {
		t.Nested[key] = &ErrorTree{}
	}
	return t.Nested[key]
}

// prune removes the places without an error.
func (t *ErrorTree) prune() {
	for key, n := range t.Nested {
		if n.prune(); n.empty() {
			delete(t.Nested, key)
		}
	}
	if len(t.Nested) == 0 {
		t.Nested = nil
	}
}

// Line is one error of a tree, with its place: "nodes.levels.2".
type Line struct{ Path, Text string }

// String returns "path: text".
func (l Line) String() string { return strings.TrimPrefix(l.Path+": "+l.Text, ": ") }

// Lines returns the errors of a tree in order of their places.
func (t *ErrorTree) Lines() []Line { return t.lines("", nil) }

func (t *ErrorTree) lines(path string, out []Line) []Line {
	if t == nil {
		return out
	}
	if t.Error != "" {
		out = append(out, Line{path, t.Error})
	}
	below := func(key string) string { return strings.TrimPrefix(path+"."+key, ".") }
	for _, key := range slices.Sorted(maps.Keys(t.KeyErrors)) {
		out = append(out, Line{below(key), t.KeyErrors[key]})
	}
	for _, key := range slices.Sorted(maps.Keys(t.Nested)) {
		out = t.Nested[key].lines(below(key), out)
	}
	return out
}

// ErrConfig is the kind of all errors of Parse.
var ErrConfig = errors.New("bad Bistro configuration")

// Error prints one error a line. It wraps ErrConfig.
type Error struct{ *ErrorTree }

// Error implements error.
func (e *Error) Error() string {
	var out []string
	for _, l := range e.Lines() {
		out = append(out, l.String())
	}
	return strings.Join(out, "\n")
}

// Unwrap returns ErrConfig.
func (e *Error) Unwrap() error { return ErrConfig }

// reader reads the keys of an object, and collects the errors in a tree.
type reader struct {
	of map[string]any
	t  *ErrorTree
}

func raw(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return text
}

func (t *ErrorTree) fail(v any, format string, args ...any) {
	t.Error, t.Value = fmt.Sprintf(format, args...), raw(v)
}

// missing records a required key that is not there.
func (r reader) missing(key string) {
	if r.t.KeyErrors == nil {
		r.t.KeyErrors = make(map[string]string)
	}
	r.t.KeyErrors[key], r.t.Value = "is missing", raw(r.of)
}

// get reads a key, if it is there and can be read.
func get[T any](r reader, key string, as func(any) (T, error), to *T) bool {
	v, ok := r.of[key]
	if !ok {
		return false
	}
	x, err := as(v)
	if err != nil {
		r.t.at(key).fail(v, "%v", err)
		return false
	}
	*to = x
	return true
}

// must is get for a required key.
func must[T any](r reader, key string, as func(any) (T, error), to *T) bool {
	if _, ok := r.of[key]; !ok {
		r.missing(key)
		return false
	}
	return get(r, key, as, to)
}

// object reads a key whose value is an object; nothing in it if it is missing.
func (r reader) object(key string) reader {
	var of map[string]any
	get(r, key, asObject, &of)
	return reader{of, r.t.at(key)}
}

// sorted are the keys of the object.
func (r reader) sorted() []string { return slices.Sorted(maps.Keys(r.of)) }

// texts reads a list of strings; those that are none are errors, and left out.
func (r reader) texts(key string) (out []string) {
	var list []any
	get(r, key, asList, &list)
	for i, v := range list {
		s, err := asString(v)
		if err != nil {
			r.t.at(key).at(strconv.Itoa(i)).fail(v, "%v", err)
			continue
		}
		out = append(out, s)
	}
	return out
}

// choice reads one of some words.
func (r reader) choice(key string, to *string, words ...string) {
	var s string
	if !get(r, key, asString, &s) {
		return
	}
	if !slices.Contains(words, s) {
		r.t.at(key).fail(s, "must be one of %s", strings.Join(words, ", "))
		return
	}
	*to = s
}

// kindOf names the kind of a JSON value.
func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case json.Number:
		return "a number"
	case string:
		return "a string"
	case []any:
		return "an array"
	}
	return "an object"
}

func asObject(v any) (map[string]any, error) {
	if m, ok := v.(map[string]any); ok {
		return m, nil
	}
	return nil, fmt.Errorf("must be an object, not %s", kindOf(v))
}

func asList(v any) ([]any, error) {
	if l, ok := v.([]any); ok {
		return l, nil
	}
	return nil, fmt.Errorf("must be an array, not %s", kindOf(v))
}

// asString takes any scalar.
func asString(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case json.Number:
		return v.String(), nil
	case bool:
		return strconv.FormatBool(v), nil
	}
	return "", fmt.Errorf("must be a string, not %s", kindOf(v))
}

// asFloat takes a number, a numeric string or a boolean.
func asFloat(v any) (float64, error) {
	text := ""
	switch v := v.(type) {
	case string:
		text = v
	case json.Number:
		text = v.String()
	case bool:
		if v {
			return 1, nil
		}
		return 0, nil
	default:
		return 0, fmt.Errorf("must be a number, not %s", kindOf(v))
	}
	x, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
		return 0, fmt.Errorf("%q is no number", text)
	}
	return x, nil
}

// asInt takes what asFloat takes, if it is whole.
func asInt(v any) (int, error) {
	if text, err := asString(v); err == nil {
		if n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64); err == nil {
			return int(n), nil
		}
	}
	x, err := asFloat(v)
	if err != nil {
		return 0, errors.New(strings.Replace(err.Error(), "no number", "no integer", 1))
	}
	if x != math.Trunc(x) || math.Abs(x) > 1<<53 {
		return 0, fmt.Errorf("%v is no integer", x)
	}
	return int(x), nil
}

// asBool takes a boolean, a number or one of the usual words.
func asBool(v any) (bool, error) {
	switch v := v.(type) {
	case bool:
		return v, nil
	case json.Number:
		x, err := v.Float64()
		return x != 0, err
	case string:
		switch strings.ToLower(v) {
		case "true", "1", "yes", "y", "on", "t":
			return true, nil
		case "false", "0", "no", "n", "off", "f":
			return false, nil
		}
		return false, fmt.Errorf("%q is no boolean", v)
	}
	return false, fmt.Errorf("must be a boolean, not %s", kindOf(v))
}

// decode reads one JSON object.
func decode(data []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	err := d.Decode(&v)
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return nil, fmt.Errorf("line %d: %w", 1+bytes.Count(data[:min(int(syntax.Offset), len(data))], []byte("\n")), err)
	case err != nil:
		return nil, err
	case len(bytes.TrimSpace(data[d.InputOffset():])) > 0:
		return nil, errors.New("more than one value")
	}
	return asObject(v)
}
