package batch

import "fmt"

// String prints the form as in a spec file.
func (c Call) String() string {
	switch c {
	case CallTemplate:
		return "template"
	case CallBistro:
		return "bistro"
	}
	return fmt.Sprintf("Call(%d)", int(c))
}

// String prints the order as in a spec file.
func (o Order) String() string {
	switch o {
	case OrderRandom:
		return "random"
	case OrderOriginal:
		return "original"
	case OrderLexicographic:
		return "lexicographic"
	}
	return fmt.Sprintf("Order(%d)", int(o))
}

// String prints the kind as in a spec file.
func (k SourceKind) String() string {
	switch k {
	case SourceManual:
		return "manual"
	case SourceScript:
		return "script"
	case SourceEmpty:
		return "empty"
	case SourceRange:
		return "range"
	case SourceFile:
		return "file"
	case SourceTime:
		return "add_time"
	}
	return fmt.Sprintf("SourceKind(%d)", int(k))
}

// String describes the policy.
func (p Policy) String() string {
	words := [...]string{"round_robin", "ranked_priority", "randomized_priority", "long_tail"}
	if p >= 0 && int(p) < len(words) {
		return words[p]
	}
	return fmt.Sprintf("Policy(%d)", int(p))
}

// FieldWord is the readable value of a field, if the number alone would mislead; empty = the
// number.
func (j Job) FieldWord(field string) string {
	if field == "Retries" && j.Retries < 0 {
		return "unlimited"
	}
	return ""
}
