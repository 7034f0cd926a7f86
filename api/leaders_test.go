package api

import (
	"fmt"
	"testing"
)

// TestLeadersThatWereNamedAreForgotten: a client that follows for long sees leaders come and go.
func TestLeadersThatWereNamedAreForgotten(t *testing.T) {
	c := NewClient(ClientConfig{Addresses: []string{"127.0.0.1:1", "127.0.0.1:2"}})
	defer c.Close()
	for i := range 100 {
		from, err := c.server()
		if err != nil {
			t.Fatal(err)
		}
		leader := fmt.Sprintf("127.0.0.1:%d", 1000+i)
		if c.elsewhere(from, leader); c.Address() != leader {
			t.Fatalf("the next call goes to %s, not to %s", c.Address(), leader)
		}
	}
	if len(c.servers) != 3 {
		t.Errorf("%d servers are remembered", len(c.servers))
	}
	from, _ := c.server()
	if c.elsewhere(from, ""); c.Address() != "127.0.0.1:1" {
		t.Errorf("then comes %s", c.Address())
	}
}
