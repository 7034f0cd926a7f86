package batch

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"regexp"
	"slices"
)

// ErrFilter reports a filter that cannot be used.
var ErrFilter = errors.New("bad filter")

// matcher is a compiled filter.
type matcher struct {
	white, black    map[string]bool
	whiteRe, black2 *regexp.Regexp
	tags            []string
	salt            string
	limit           uint64 // hashes below it pass; 0 = all
}

// compile prepares a filter for a job. It returns ErrFilter.
func (f Filter) compile(job string) (*matcher, error) {
	m := &matcher{tags: f.TagWhitelist, salt: job}
	m.white, m.black = set(f.Whitelist), set(f.Blacklist)
	var err error
	if f.WhitelistRegex != "" {
		if m.whiteRe, err = regexp.Compile(f.WhitelistRegex); err != nil {
			return nil, fmt.Errorf("whitelist_regex %q: %w: %w", f.WhitelistRegex, ErrFilter, err)
		}
	}
	if f.BlacklistRegex != "" {
		if m.black2, err = regexp.Compile(f.BlacklistRegex); err != nil {
			return nil, fmt.Errorf("blacklist_regex %q: %w: %w", f.BlacklistRegex, ErrFilter, err)
		}
	}
	if f.Fraction > 0 && f.Fraction < 1 {
		m.limit = max(uint64(math.Ldexp(f.Fraction, 63))<<1, 1)
	}
	return m, nil
}

func set(names []string) map[string]bool {
	if len(names) == 0 {
		return nil
	}
	m := make(map[string]bool, len(names))
	for _, n := range names {
		m[n] = true
	}
	return m
}

// pass reports whether a node passes all conditions.
func (m *matcher) pass(name string, tags []string) bool {
	switch {
	case m == nil:
		return true
	case m.white != nil && !m.white[name], m.black[name]:
		return false
	case m.whiteRe != nil && !m.whiteRe.MatchString(name):
		return false
	case m.black2 != nil && m.black2.MatchString(name):
		return false
	case m.limit != 0 && fractionHash(name, m.salt) >= m.limit:
		return false
	case len(m.tags) > 0 && !slices.ContainsFunc(tags, func(t string) bool { return slices.Contains(m.tags, t) }):
		return false
	}
	return true
}

// fractionHash is the specified hash behind Fraction, the same in every build:
// FNV-1a 64 over the node's name, a zero byte and the job's name, finished by the
// mixer of SplitMix64. Nodes selected at 0.2 are a subset of those at 0.5, and
// jobs select different subsets.
func fractionHash(node, job string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(node))
	h.Write([]byte{0})
	h.Write([]byte(job))
	return mix(h.Sum64())
}

func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
