package link

import (
	"errors"
	"fmt"
	"testing"
)

// TestLeadersThatWereNamedAreForgotten: a cell keeps connections to its servers and to the newest
// leader that one of them named; leaders with an address of their own come and go.
func TestLeadersThatWereNamedAreForgotten(t *testing.T) {
	servers := []string{"127.0.0.1:1", "127.0.0.1:2"}
	c := NewLeaderClient(servers, Security{}, func() {})
	defer c.Close()
	for i := range 100 {
		at, _ := c.conn()
		c.failed(at, &NotLeader{Addresses: []string{fmt.Sprintf("127.0.0.1:%d", 1000+i)}})
		if named, _ := c.conn(); named == at {
			t.Fatalf("%s still, after a leader was named", at)
		}
		c.failed(c.current, errors.New("no connection"))
	}
	if len(c.clients) > len(servers)+1 {
		t.Errorf("%d leaders are remembered: %v", len(c.clients), c.clients)
	}
}
