// Package stories tells what a person does over a day, in verbs, with a kill, a
// restart, a full disk or a cut link in between, and checks at each step what they see
// (ps, explain, wait, exit code, hint) as well as what runs: the seams between parts
// that are each right by themselves. Package scripttest has the commands.
package stories

import (
	"testing"

	"cantina/test/scripttest"
)

func TestStories(t *testing.T) { scripttest.Run(t, "../../bin", "testdata", "") }
