package main

import (
	"slices"
	"testing"
	"time"
)

func TestStuckFlags(t *testing.T) {
	for name, c := range map[string]struct {
		f    stuckFlags
		want []string
		bad  bool
	}{
		"stay":            {stuckFlags{"keep-unclean", "reboot -f", time.Second}, nil, false},
		"reboot":          {stuckFlags{"reboot", "touch /x", time.Second}, []string{"/bin/sh", "-c", "touch /x"}, false},
		"without command": {stuckFlags{"reboot", "", time.Second}, nil, true},
	} {
		got, err := c.f.command()
		if !slices.Equal(got, c.want) || (err != nil) != c.bad {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
