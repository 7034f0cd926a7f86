package action

import (
	"errors"
	"fmt"
)

// Limits of the kernel for the arguments and environment of a program (execve(2)), less the part
// that the cell and an image add to the environment.
const (
	// MaxText is the longest argument, or variable with its name, in bytes.
	MaxText = 128<<10 - 1
	// MaxTexts bounds all arguments and variables of a program together, in bytes.
	MaxTexts = 2<<20 - 128<<10
	// perText is the cost of each of them besides its bytes.
	perText = 9
)

var (
	// ErrTooLong reports arguments or variables that no program can be started with.
	ErrTooLong = errors.New("too long for a program")
	// ErrShown reports a value that an answer showed in the place of the real one.
	ErrShown = errors.New("is the placeholder of a hidden value: give the value itself")
)

// CheckEnv refuses variables that no program can be started with, and values that were only
// shown.
func CheckEnv(env []Variable) error {
	var errs []error
	for _, v := range env {
		if n := len(v.Name) + 1 + len(v.Value); n > MaxText {
			errs = append(errs, fmt.Errorf("%.60s: %d bytes with its name, at most %d: %w; hand it over in a file", v.Name, n,
				MaxText, ErrTooLong))
		}
		if v.Value == Secret {
			errs = append(errs, fmt.Errorf("%.60s: %s %w", v.Name, Secret, ErrShown))
		}
	}
	return errors.Join(errs...)
}

// CheckArguments does it for the program itself, its arguments, and all of it together with the
// variables of its workload.
func (r *Run) CheckArguments(env []Variable) error {
	sum := 0
	for i, a := range append([]string{r.Path}, r.Args...) {
		if len(a) > MaxText {
			return fmt.Errorf("argument %d: %d bytes, at most %d: %w; hand it over in a file", i, len(a), MaxText, ErrTooLong)
		}
		sum += len(a) + perText
	}
	for _, list := range [][]Variable{env, r.Env} {
		for _, v := range list {
			sum += len(v.Name) + 1 + len(v.Value) + perText
		}
	}
	if sum > MaxTexts {
		return fmt.Errorf("arguments and variables have %d bytes together, at most %d: %w; hand them over in a file", sum,
			MaxTexts, ErrTooLong)
	}
	return nil
}
