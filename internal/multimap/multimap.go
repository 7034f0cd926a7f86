// Package multimap is a map from a key to a set of values, without empty sets. It is a value of the core.
package multimap

// Map has for each key the set of its values; a key without values is not in it.
type Map[K, V comparable] map[K]map[V]struct{}

// Set adds a value to a key's set, or removes it. Adding an existing value, or removing a missing
// one, changes nothing.
func (m Map[K, V]) Set(k K, v V, in bool) {
	s := m[k]
	switch {
	case in && s == nil:
		m[k] = map[V]struct{}{v: {}}
	case in:
		s[v] = struct{}{}
	default:
		if delete(s, v); len(s) == 0 {
			delete(m, k)
		}
	}
}
