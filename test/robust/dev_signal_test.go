package robust

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestDevEndsOnSignals: each signal that ends a program from outside also ends the work of cantina dev, before dev
// itself. This includes processes in a session of their own.
func TestDevEndsOnSignals(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGINT, syscall.SIGHUP} {
		t.Run(sig.String(), func(t *testing.T) {
			w, data := newWitness(t), tempDir(t)
			d := startDev(t, data).wait()
			apply(t, d.Addr,
				fmt.Sprintf("services:\n  s: {command: [/bin/sh, -c, 'setsid sleep 1000 & echo up >>%s/up; exec sleep 1000']}\n",
					w.dir))
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

// TestLongVerbsEndOnASignalThatComesEarly: one that comes while the store or the executor is
// being opened ends the process in good order too.
func TestLongVerbsEndOnASignalThatComesEarly(t *testing.T) {
	for verb, more := range map[string][]string{
		"dev":    {"--socket", "none", "--listen", "127.0.0.1:0"},
		"server": {"--socket", "none", "--listen", "127.0.0.1:0"},
		"cell":   {"--servers", "127.0.0.1:1", "--listen", "127.0.0.1:0", "--name", "one"},
	} {
		t.Run(verb, func(t *testing.T) {
			data := filepath.Join(tempDir(t), "data")
			p := start(t, verb, append([]string{verb, "--data", data}, more...)...)
			look := time.NewTicker(time.Millisecond)
			defer look.Stop()
			for _, err := os.Stat(data); err != nil; _, err = os.Stat(data) { // it opens something
				select {
				case <-look.C:
				case <-p.ended:
					t.Fatalf("%s ended by itself: %v", verb, p.err)
				}
			}
			p.signal(syscall.SIGTERM)
			select {
			case <-p.ended:
			case <-time.After(patience):
				t.Fatalf("%s did not end within %v", verb, patience)
			}
			if p.err != nil {
				t.Errorf("%s ended with %v", verb, p.err)
			}
		})
	}
}
