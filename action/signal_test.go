package action

import "testing"

func TestEachNamedSignalIsFoundBothWays(t *testing.T) {
	seen := map[int]bool{}
	for _, name := range SignalNames() {
		n := SignalNumber(name)
		if n < 1 || n > 31 || seen[n] || SignalName(n) != name {
			t.Errorf("%s is %d, which is %s", name, n, SignalName(n))
		}
		seen[n] = true
	}
	if SignalNumber("SIGHUP") != 0 || SignalNumber("") != 0 || SignalName(64) != "64" {
		t.Error("a signal that has no name here has one")
	}
}
