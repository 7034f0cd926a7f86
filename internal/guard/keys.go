package guard

import (
	"crypto/rand"
	"net/http"
	"sync"
	"time"

	"cantina/internal/secret"
)

const (
	// keyIdle is how long a key of a browser is valid without a request.
	keyIdle = 24 * time.Hour
	// maxKeys bounds the keys of one process: the one that was used longest ago ends first.
	maxKeys = 256
)

// Keys are the keys of browsers. They are in the memory of one server process and end with it: a
// program that takes the port of a dead server, and so receives a key, can use it nowhere.
type Keys struct {
	now func() time.Duration

	mu   sync.Mutex
	used map[string]time.Duration // when each key was shown last
}

// NewKeys returns an empty set; now is a monotonic clock.
func NewKeys(now func() time.Duration) *Keys {
	return &Keys{now: now, used: map[string]time.Duration{}}
}

// New makes a key.
func (k *Keys) New() secret.Text {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.used) >= maxKeys {
		oldest := ""
		for key, at := range k.used {
			if oldest == "" || at < k.used[oldest] {
				oldest = key
			}
		}
		delete(k.used, oldest)
	}
	key := rand.Text()
	k.used[key] = k.now()
	return secret.New(key)
}

// shown reports whether a request shows a valid key. The keys are random, so the time of the look-up
// reveals nothing that helps to guess one.
func (k *Keys) shown(h http.Header) bool {
	key := bearer(h)
	if k == nil || key == "" {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	at, ok := k.used[key]
	switch now := k.now(); {
	case !ok:
		return false
	case now-at > keyIdle:
		delete(k.used, key)
		return false
	default:
		k.used[key] = now
		return true
	}
}
