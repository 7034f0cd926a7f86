package cell

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"cantina/worker"
)

// full is a directory on a disk that is full at times.
type full struct {
	IdentityStore
	err     error
	saved   Identity
	durable bool
}

// Save implements DirID.
func (f *full) Save(id Identity, durable bool) error {
	if f.err == nil {
		f.saved, f.durable = id, durable
	}
	return f.err
}

// TestUnsavedIdentityIsSavedLater: an identity that could not be saved is saved as soon as that works, with the
// required durability, also without a further change.
func TestUnsavedIdentityIsSavedLater(t *testing.T) {
	f := &full{err: errors.New("no space left")}
	s := &session{log: slog.New(slog.DiscardHandler), store: f}
	now := worker.Kept{Epoch: 7, Deadline: time.Hour}
	s.keep(worker.Kept{}, now)
	s.keep(now, now)
	f.err = nil
	s.keep(now, now)
	if f.saved.Epoch != 7 || f.saved.Deadline != time.Hour || !f.durable {
		t.Errorf("saved: %+v, durable %v", f.saved, f.durable)
	}
	f.saved = Identity{}
	s.keep(now, now)
	if f.saved.Epoch != 0 {
		t.Error("saved again without need")
	}
}
