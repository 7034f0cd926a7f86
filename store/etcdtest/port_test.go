package etcdtest

import (
	"net"
	"testing"
)

// TestFreeAddr: a port is given once, can be listened at again and again, and is none of
// those that the kernel gives out.
func TestFreeAddr(t *testing.T) {
	seen := map[string]bool{}
	for range 200 {
		addr := FreeAddr(t)
		if seen[addr] {
			t.Errorf("%s was given twice", addr)
		}
		seen[addr] = true
		for range 2 {
			l, err := net.Listen("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			if port := l.Addr().(*net.TCPAddr).Port; port < firstPort || port > lastPort {
				t.Errorf("port %d", port)
			}
			_ = l.Close()
		}
	}
}
