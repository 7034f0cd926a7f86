package sim

import (
	"errors"
	"os"
	"reflect"
	"testing"

	"cantina/worker"
)

// planted returns one Mistakes value for each field, by name.
func planted() map[string]worker.Mistakes {
	ms := map[string]worker.Mistakes{}
	typ := reflect.TypeFor[worker.Mistakes]()
	for i := range typ.NumField() {
		var m worker.Mistakes
		reflect.ValueOf(&m).Elem().Field(i).SetBool(true)
		ms[typ.Field(i).Name] = m
	}
	return ms
}

func TestFindMistakes(t *testing.T) {
	if os.Getenv("SIM_FIND") == "" {
		t.Skip()
	}
	only := os.Getenv("SIM_FIND")
	for name, m := range planted() {
		if only != "1" && only != name {
			continue
		}
		found := 0
		for seed := range uint64(3000) {
			_, err := Run(Config{Seed: seed, Mistakes: m})
			var v *Violation
			if errors.As(err, &v) {
				t.Logf("%-22s seed %4d %s step %d: %.150s", name, seed, v.Invariant, v.Step, v.Text)
				if found++; found == 3 {
					break
				}
			}
		}
		if found == 0 {
			t.Errorf("%-22s NOT FOUND", name)
		}
	}
}
