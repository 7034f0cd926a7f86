package wire

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cantina/fence"
	"cantina/resource"
	pb "cantina/wire/cantinav1"
)

// FromDuration is nil for 0.
func FromDuration(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

// ToDuration is 0 for nil. It refuses a value that does not fit into a time.Duration.
func ToDuration(d *durationpb.Duration) (time.Duration, error) {
	if d == nil {
		return 0, nil
	}
	if err := d.CheckValid(); err != nil {
		return 0, fmt.Errorf("duration: %w", ErrMalformed)
	}
	out := d.AsDuration()
	if back := durationpb.New(out); back.Seconds != d.Seconds || back.Nanos != d.Nanos {
		return 0, fmt.Errorf("duration of %d s: %w", d.Seconds, ErrMalformed)
	}
	return out, nil
}

// FromTime is nil for the zero time.
func FromTime(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// ToTime is the zero time for nil, otherwise in UTC.
func ToTime(t *timestamppb.Timestamp) (time.Time, error) {
	if t == nil {
		return time.Time{}, nil
	}
	if err := t.CheckValid(); err != nil {
		return time.Time{}, fmt.Errorf("time: %w", ErrMalformed)
	}
	return t.AsTime(), nil
}

// FromAmounts is nil when there are none.
func FromAmounts(a resource.Amounts) map[string]int64 {
	if len(a) == 0 {
		return nil
	}
	out := make(map[string]int64, len(a))
	for n, v := range a {
		out[n] = int64(v)
	}
	return out
}

// ToAmounts is nil when there are none.
func ToAmounts(m map[string]int64) resource.Amounts {
	if len(m) == 0 {
		return nil
	}
	out := make(resource.Amounts, len(m))
	for n, v := range m {
		out[n] = int(v)
	}
	return out
}

// FromTerm is the wire form of a term.
func FromTerm(t fence.Term) *pb.Term { return &pb.Term{Epoch: t.Epoch, Revision: t.Revision} }

// ToTerm is the zero term for nil.
func ToTerm(t *pb.Term) fence.Term {
	return fence.Term{Epoch: t.GetEpoch(), Revision: t.GetRevision()}
}

// FromInvocation is nil for "none".
func FromInvocation(i fence.Invocation) *pb.Invocation {
	if i.IsZero() {
		return nil
	}
	return &pb.Invocation{Term: FromTerm(i.Term), Counter: i.Counter}
}

// ToInvocation is "none" for nil.
func ToInvocation(i *pb.Invocation) fence.Invocation {
	return fence.Invocation{Term: ToTerm(i.GetTerm()), Counter: i.GetCounter()}
}
