package run

import "context"

// placeKey is the key of a call's place in a context.
type placeKey struct{}

// WithPlace returns the context of a call that occupies one of few places; leave gives the place
// back, and may be called once.
func WithPlace(ctx context.Context, leave func()) context.Context {
	return context.WithValue(ctx, placeKey{}, leave)
}

// LeavePlace gives the place of a call back, if it has one: the rest of the call is only a wait, and
// is not to keep others from being decided. It is called once at most.
func LeavePlace(ctx context.Context) {
	if leave, ok := ctx.Value(placeKey{}).(func()); ok {
		leave()
	}
}
