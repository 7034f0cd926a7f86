package lrp

import (
	"errors"
	"iter"
	"maps"
	"slices"

	"cantina/label"
)

// Apart returns the keys of the services that ApartFrom names, as texts.
func (d *Desired) Apart() []string {
	if len(d.ApartFrom) == 0 {
		return nil
	}
	out := make([]string, len(d.ApartFrom))
	for i, name := range d.ApartFrom {
		out[i] = ServiceKey{Domain: d.Service.Domain, Name: name}.String()
	}
	return out
}

// CheckSpread returns an error for a label that cannot be spread over.
func CheckSpread(name string) error {
	if name == label.Cell {
		return errors.New("cell: instances are always spread over cells in the end; remove it")
	}
	return label.CheckName(name)
}

// CheckMaxPer returns an error for a bound that cannot hold.
func CheckMaxPer(name string, most int) error {
	if most < 1 {
		return errors.New(name + ": must be at least 1; use instances: 0 to run none")
	}
	return label.CheckName(name)
}

// CheckApart returns an error for a service that d cannot be kept apart from.
func (d *Desired) CheckApart(name string) error {
	if !ValidName(name) {
		return errors.New(NameRule)
	}
	if name == d.Service.Name {
		return errors.New(name + " is the service itself: use max_per: {cell: 1}")
	}
	return nil
}

// placementErrors are the errors in the fields that place instances relative to labels and to other work, by
// the name of the field.
func (d *Desired) placementErrors() iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if _, err := label.ParseAll(d.Conditions); err != nil && !yield("cell_match", err) {
			return
		}
		for _, name := range d.Spread {
			if err := CheckSpread(name); err != nil && !yield("spread_over", err) {
				return
			}
		}
		for _, name := range slices.Sorted(maps.Keys(d.MaxPer)) {
			if err := CheckMaxPer(name, d.MaxPer[name]); err != nil && !yield("max_per", err) {
				return
			}
		}
		for _, name := range d.ApartFrom {
			if err := d.CheckApart(name); err != nil && !yield("apart_from", err) {
				return
			}
		}
	}
}
