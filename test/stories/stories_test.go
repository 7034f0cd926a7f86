// Package stories plays a day of a user, in verbs, with a kill, a restart, a full disk or a cut link in between. At
// each step it checks the output (ps, explain, wait, exit code, hint) and the running work: the seams between parts
// that are each right by themselves. Package scripttest has the commands.
package stories

import (
	"testing"

	"cantina/test/scripttest"
)

func TestStories(t *testing.T) { scripttest.Run(t, "../../bin", "testdata", "") }
