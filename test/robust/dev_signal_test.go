package robust

import (
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestDevEndsOnSignals: each of the signals that end a program from outside ends what
// cantina dev runs too, with what made a session of its own, before dev itself.
func TestDevEndsOnSignals(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGINT, syscall.SIGHUP} {
		t.Run(sig.String(), func(t *testing.T) {
			w, data := newWitness(t), tempDir(t)
			d := startDev(t, data).wait()
			apply(t, d.Addr, fmt.Sprintf("services:\n  s: {command: [/bin/sh, -c, 'setsid sleep 1000 & echo up >>%s/up; exec sleep 1000']}\n", w.dir))
			if !w.until(patience, func() bool { return len(w.lines("up")) == 1 }) {
				t.Fatal("the service does not start")
			}
			d.signal(sig)
			select {
			case <-d.ended:
			case <-time.After(patience):
				t.Fatalf("dev did not end within %v after %v", patience, sig)
			}
			if d.err != nil {
				t.Errorf("dev ended with %v after %v", d.err, sig)
			}
			clean(t, filepath.Join(data, "cell"))
		})
	}
}
