package action

import "fmt"

// DefaultPriority is the preempt_priority of work that names none.
const DefaultPriority = 50

// PriorityOf returns the preempt_priority of work whose definition has n: 0 means the default.
func PriorityOf(n int) int {
	if n == 0 {
		return DefaultPriority
	}
	return n
}

// CheckPriority returns an error for a preempt_priority that is neither 0 (the default) nor 1 to 100.
func CheckPriority(n int) error {
	if n < 0 || n > 100 {
		return fmt.Errorf("must be 1 to 100, not %d", n)
	}
	return nil
}
