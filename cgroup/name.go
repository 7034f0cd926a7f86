package cgroup

import (
	"fmt"
	"hash/fnv"
	"strings"
)

// maxName is the longest group name that Escape makes; the kernel allows 255.
const maxName = 200

// Escape turns any text into a name for a directory: letters, digits, ".", "_" and
// "-" stay, other bytes become %XX. Long names are cut and get a hash.
func Escape(s string) string {
	plain := s != "" && s[0] != '.' && len(s) <= maxName
	for i := 0; plain && i < len(s); i++ {
		plain = harmless(s[i])
	}
	if plain {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if harmless(s[i]) && (i > 0 || s[i] != '.') {
			b.WriteByte(s[i])
		} else {
			fmt.Fprintf(&b, "%%%02X", s[i])
		}
	}
	if s == "" {
		return "%"
	}
	out := b.String()
	if len(out) <= maxName {
		return out
	}
	h := fnv.New64a()
	h.Write([]byte(s))
	return fmt.Sprintf("%s%%%016x", out[:maxName-20], h.Sum64())
}

func harmless(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-'
}
