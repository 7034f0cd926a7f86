package executor

import (
	"syscall"
	"testing"
	"time"
)

// TestTheCellEndsInSpiteOfItsReaper: a stopped or killed reaper, or one that has stopped reading, delays the end of
// its cell only by its time to end.
func TestTheCellEndsInSpiteOfItsReaper(t *testing.T) {
	for name, disturb := range map[string]func(t *testing.T, k *keeper){
		"stopped": func(_ *testing.T, k *keeper) { k.reaper.Signal(syscall.SIGSTOP) },
		"killed":  func(_ *testing.T, k *keeper) { k.reaper.Signal(syscall.SIGKILL) },
		"full": func(t *testing.T, k *keeper) {
			k.reaper.Signal(syscall.SIGSTOP)
			if err := k.sock.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
				t.Fatal(err)
			}
			for err := error(nil); err == nil; {
				_, err = k.sock.Write([]byte("spare /nothing"))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := testConfig(tempDir(t))
			cfg.KillWait = 100 * time.Millisecond
			e, stop := runExecutor(t, cfg)
			launch(t, e, "first", sh("true")) // the reaper is up
			e.keeper.mu.Lock()
			disturb(t, e.keeper)
			e.keeper.mu.Unlock()
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
	}
}
