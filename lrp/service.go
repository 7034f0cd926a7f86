package lrp

import "time"

// Phase is what a service's rollout is doing.
type Phase int

// The phases.
const (
	Steady      Phase = iota // one version, nothing moves
	RollingOut               // the newest version is replacing the others
	RollingBack              // the newest version failed; the last good one is coming back
	RollFailed               // it failed and was left as it is, or there was nothing to return to
)

// Version is one definition of a service and the range of its indices that is
// wanted at this moment: Low ≤ index < High.
type Version struct {
	Desired
	// Number counts the versions of the service from 1.
	Number int
	// Low and High are written by apply, scale and Roll.
	Low, High int
	// Good is set once the version was rolled out whole and healthy. Written by Roll.
	Good bool
	// Failed is why the version was taken back. Written by Roll.
	Failed string
}

// Wants reports whether index i is wanted of this version now.
func (v *Version) Wants(i int) bool { return v.Low <= i && i < v.High }

// Service owns the versions of one service, oldest first; the last one is what was
// applied last (or what a rollback returned to).
type Service struct {
	Key      ServiceKey
	Versions []Version
	// Instances is how many are wanted; scale writes it.
	Instances int
	Removed   bool // undesired; the row goes when no instance is left
	Phase     Phase
	// Progress is when the rollout last gained a healthy instance; Healthy is how many it had then.
	Progress time.Time
	Healthy  int
	// Applied is when the newest version was applied.
	Applied time.Time
}
