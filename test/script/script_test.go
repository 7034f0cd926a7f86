// Package script runs the command line as people do: the real binary, a real
// `cantina dev` for each script, real processes. Package scripttest has the commands.
package script

import (
	"os"
	"testing"

	"cantina/test/scripttest"
)

// TestScripts runs each script twice: its workloads, which name no user, run as the cell's
// own, and as one without privileges.
func TestScripts(t *testing.T) {
	for name, user := range map[string]string{"root": "", "user": "65534:65534"} {
		t.Run(name, func(t *testing.T) {
			if user != "" && os.Getuid() != 0 {
				t.Skip("skipped: only root runs work as somebody else")
			}
			scripttest.Run(t, "../../bin", "testdata", user)
		})
	}
}
