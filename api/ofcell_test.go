package api

import (
	"errors"
	"testing"
)

// TestACellIsNamedOnce: an error that names its cell gets no second prefix.
func TestACellIsNamedOnce(t *testing.T) {
	for text, want := range map[string]string{
		"cell c2: cell unreachable": "cell c2: cell unreachable", "cell unreachable": "cell c2: cell unreachable",
		"cell c3: cell unreachable": "cell c2: cell c3: cell unreachable",
	} {
		if got := ofCell("c2", errors.New(text)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
