package guard

import (
	"log"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"
)

// handshakeAgain is how long the same failure of the same caller is not logged again.
const handshakeAgain = time.Minute

// maxCallers bounds the callers whose failures are remembered.
const maxCallers = 1000

// serverLog is where the HTTP library writes: its lines in the format of the log, and those of one caller
// that does not have the right certificate once a minute.
type serverLog struct {
	log *slog.Logger
	now func() time.Time

	mu   sync.Mutex
	seen map[string]time.Time // caller and cause → when it was logged
}

// libraryLog is the ErrorLog of a server.
func libraryLog(to *slog.Logger) *log.Logger {
	if to == nil {
		return nil
	}
	return log.New(&serverLog{log: to, now: time.Now, seen: map[string]time.Time{}}, "", 0)
}

// Write implements io.Writer: it takes one line.
func (l *serverLog) Write(b []byte) (int, error) {
	line := strings.TrimSpace(string(b))
	rest, ok := strings.CutPrefix(line, "http: TLS handshake error from ")
	from, cause, split := strings.Cut(rest, ": ")
	switch host, _, err := net.SplitHostPort(from); {
	case !ok || !split || err != nil:
		l.log.Warn("HTTP server", "error", line)
	case cause == "EOF": // it only looked whether something listens
		l.log.Debug("TLS handshake failed", "from", host, "error", cause)
	case l.news(host + " " + cause):
		l.log.Warn("TLS handshake failed", "from", host, "error", cause)
	}
	return len(b), nil
}

// news reports whether a failure was not logged a moment ago.
func (l *serverLog) news(failure string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if at, ok := l.seen[failure]; ok && now.Sub(at).Abs() < handshakeAgain {
		return false
	}
	if len(l.seen) >= maxCallers {
		clear(l.seen)
	}
	l.seen[failure] = now
	return true
}
