package action

import (
	"fmt"
)

// Format prints a variable without its value, with every verb: environments carry
// passwords, and whoever prints a workload, in a log or an error, must not tell them.
func (v Variable) Format(s fmt.State, _ rune) {
	_, _ = fmt.Fprint(s, v.Name+"=[secret]") // fmt has no use for an error
}
