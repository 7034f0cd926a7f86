// Package text has functions on text that several packages need: make foreign bytes valid, shorten
// text, describe numbers, and find the intended name.
package text

import (
	"fmt"
	"strings"
)

// Clean returns s with U+FFFD in place of invalid UTF-8, as protobuf and JSON require.
func Clean(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// CleanAll returns a list with each of its texts clean; nil when it is empty.
func CleanAll(list []string) []string {
	if len(list) == 0 {
		return nil
	}
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = Clean(s)
	}
	return out
}

// CleanMap returns a map with keys and values clean; nil when it is empty.
func CleanMap(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	out := make(map[string]string, len(m))
	for k, v := range m {
		out[Clean(k)] = Clean(v)
	}
	return out
}

// Shorten returns s, or its first most bytes and an ellipsis. It splits no rune.
func Shorten(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// Integer is the type of a count.
type Integer interface {
	~int | ~int32 | ~int64
}

// Count returns a number with its noun, which takes an s unless there is one: "1 task", "2 tasks".
func Count[N Integer](n N, noun string) string { return CountAs(n, noun, noun+"s") }

// CountAs returns a number followed by the word for one, or for many.
func CountAs[N Integer](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// maxWord is the longest word whose distance from another is computed.
const maxWord = 64

// Distance counts the insertions, deletions, replacements and swaps of neighbouring bytes that
// turn a into b. A word of more than 64 bytes is far from all others.
func Distance(a, b string) int {
	if len(a) > maxWord || len(b) > maxWord {
		return max(len(a), len(b))
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

// Nearest returns the name that is most similar to s, or "" if none is similar: at most a third of
// its letters (at least one) may differ.
func Nearest(s string, names []string) string {
	if len(s) > maxWord {
		return ""
	}
	best, bestAt := "", min(max(1, len(s)/3)+1, len(s))
	for _, n := range names {
		if d := Distance(strings.ToLower(s), strings.ToLower(n)); d < bestAt {
			best, bestAt = n, d
		}
	}
	return best
}

// DidYouMean is a hint with the nearest name, or "".
func DidYouMean(s string, names []string) string {
	if n := Nearest(s, names); n != "" {
		return fmt.Sprintf("did you mean %s?", n)
	}
	return ""
}
