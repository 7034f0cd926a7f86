package event

import (
	"sync"
	"time"
)

// Forms keeps the encodings of an event: the first reader that needs a form makes it, the others
// get the same for some time. Only the newest events have it (newestForms).
type Forms struct {
	now  func() time.Time
	mu   sync.Mutex
	made map[any]made
}

type made struct {
	form any
	at   time.Time
}

const (
	// newestForms is how many events keep their forms: readers that keep up are not further
	// behind.
	newestForms = 4096
	// formAge is how old a form may be: it shows more than the event, as it is now.
	formAge = time.Second
)

// Form returns the form of a key, calling make if there is no recent one; f may be nil. The result
// is shared and must not be changed.
func Form[T any](f *Forms, key any, make func() T) T {
	if f == nil {
		return make()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	if x, ok := f.made[key]; ok && now.Sub(x.at) < formAge && !now.Before(x.at) {
		return x.form.(T)
	}
	x := make()
	if f.made == nil {
		f.made = map[any]made{}
	}
	f.made[key] = made{x, now}
	return x
}
