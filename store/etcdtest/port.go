package etcdtest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// The ports of FreeAddr: below those that a kernel gives out itself (Linux: from 32768), and
// beside those that cells give to containers (from 20000).
const firstPort, lastPort = 10000, 19999

// FreeAddr returns a loopback address, "127.0.0.1:PORT", without a listener, for a server that a
// test starts, ends and starts again. Until the test has ended no other program gets the port: not
// the kernel, which has its own ports for connections and listeners without one, and no other test
// program, for which a datagram socket at it is the sign.
func FreeAddr(t testing.TB) string {
	t.Helper()
	for range 1000 {
		addr := fmt.Sprint("127.0.0.1:", firstPort+rand.IntN(lastPort-firstPort+1))
		claim, err := net.ListenPacket("udp", addr)
		if err != nil {
			continue
		}
		l, err := net.Listen("tcp", addr)
		if err != nil {
			_ = claim.Close()
			continue
		}
		_ = l.Close()
		t.Cleanup(func() { _ = claim.Close() })
		return addr
	}
	t.Fatalf("no free port from %d to %d", firstPort, lastPort)
	return ""
}
