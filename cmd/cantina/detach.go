package main

import (
	"strings"

	"cantina/api"
)

// parseDetachKeys reads keys like "ctrl-p,ctrl-q", as docker does: single characters, and ctrl- with a
// letter or one of @[\]^_.
func parseDetachKeys(text string) ([]byte, error) {
	if text == "" {
		return nil, nil
	}
	var keys []byte
	for k := range strings.SplitSeq(text, ",") {
		name, ctrl := strings.CutPrefix(k, "ctrl-")
		switch {
		case !ctrl && len(k) == 1:
			keys = append(keys, k[0])
		case ctrl && len(name) == 1 && (name[0] >= 'a' && name[0] <= 'z'):
			keys = append(keys, name[0]-'a'+1)
		case ctrl && len(name) == 1 && strings.Contains(`@[\]^_`, name):
			keys = append(keys, name[0]-'@')
		default:
			return nil, failf(api.ExitUsage,
				"--detach-keys %q: %q is not a valid key; write single characters and ctrl-KEY, like ctrl-p,ctrl-q", text, k)
		}
	}
	return keys, nil
}

// detacher finds the detach keys in typed bytes.
type detacher struct {
	keys []byte
	held int // of the keys, typed and not passed on
}

// filter returns the bytes to pass on, and whether the keys are complete. Keys that may be the
// beginning are held until the next one.
func (d *detacher) filter(typed []byte) (out []byte, detach bool) {
	if len(d.keys) == 0 {
		return typed, false
	}
	for _, k := range typed {
		if k != d.keys[d.held] {
			out = append(out, d.keys[:d.held]...)
			d.held = 0
		}
		if k != d.keys[d.held] {
			out = append(out, k)
			continue
		}
		if d.held++; d.held == len(d.keys) {
			return out, true
		}
	}
	return out, false
}
