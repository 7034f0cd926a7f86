// Package mistake holds the table of planted mistakes: each breaks one rule of cantina, to show
// that the simulator and the exhaustive search would find it. A mistake is a set of patches of the
// source. Production code has no trace of them: one build with -overlay contains all, and each
// is chosen when the program starts, by its name in the environment. Only patched code
// imports this package.
package mistake

import (
	"fmt"
	"os"
	"slices"

	"cantina/internal/mutate"
)

// Variable is set to the name of the planted mistake in the environment of a patched program.
const Variable = "CANTINA_MISTAKE"

// Mistake is one broken rule, and how it is looked for.
type Mistake struct {
	Name string
	// Rule is the rule as it is broken.
	Rule string
	// Args are flags of `cantina sim` under which the mistake shows most often.
	Args string
	// Search is the budget of the exhaustive search that finds it too; "" = none is tried.
	Search string
	// Quiet leaves out the checks of single calls (contract), which would find the
	// mistake at once: the invariants have to.
	Quiet bool
	// By is the invariant that finds it; "" = any.
	By      string
	Patches []mutate.Patch
}

// All returns all mistakes.
func All() []Mistake {
	return slices.Concat(sessions(), records(), cells(), stores(), boards(), restored(), preemptions(), executors(),
		schedules())
}

// Patches returns the patches of all mistakes, each with its name, and those of the checks that
// silent mistakes leave out.
func Patches() []mutate.Patch {
	var out []mutate.Patch
	for _, m := range All() {
		for _, p := range m.Patches {
			p.Name = m.Name
			out = append(out, p)
		}
	}
	for _, p := range quieter() {
		p.Name = "Quiet"
		out = append(out, p)
	}
	return out
}

// planted is the mistake of this process. The zero value has no name.
var planted = find(os.Getenv(Variable))

func find(name string) Mistake {
	if name == "" {
		return Mistake{}
	}
	all := All()
	i := slices.IndexFunc(all, func(m Mistake) bool { return m.Name == name })
	if i < 0 {
		fmt.Fprintf(os.Stderr, "%s=%s: no mistake has this name\n", Variable, name)
		os.Exit(2)
	}
	return all[i]
}

// On reports that one of the named mistakes is planted.
func On(names ...string) bool { return slices.Contains(names, planted.Name) }

// Quiet reports that the planted mistake leaves the checks of single calls out.
func Quiet() bool { return planted.Quiet }

// patch is one change of a file; the mistake that has it gives it its name.
func patch(file, old, with string) mutate.Patch { return mutate.Patch{File: file, Old: old, New: with} }
