package api

import (
	"context"
	"fmt"
	"testing"
)

// TestStreamsOfAClientThatWentAreForgotten: a client's count is removed with its last stream, in
// any order of their ends.
func TestStreamsOfAClientThatWentAreForgotten(t *testing.T) {
	s := &streams{}
	var done []func()
	for i := range 100 {
		ctx := context.WithValue(context.Background(), callerKey{}, fmt.Sprintf("10.0.0.%d:%d", i%50, i))
		d, err := s.open(ctx)
		if err != nil {
			t.Fatal(err)
		}
		done = append(done, d)
	}
	if len(s.count) != 50 {
		t.Errorf("%d clients, not 50: %v", len(s.count), s.count)
	}
	for _, d := range done {
		d()
	}
	if len(s.count) != 0 {
		t.Errorf("%d clients that went are counted", len(s.count))
	}
}
