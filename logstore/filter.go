package logstore

// filter is a Bloom filter over the ids and label pairs of a segment: it proves absence without
// reading the segment's index.
type filter []byte

const filterBitsPerKey = 12

// hash64 is FNV-1a over the parts, each closed by a zero byte, with a final mix. It must never
// change, because filters are on disk.
func hash64(parts ...string) uint64 {
	h := uint64(14695981039346656037)
	for _, p := range parts {
		for i := 0; i < len(p); i++ {
			h = (h ^ uint64(p[i])) * 1099511628211
		}
		h *= 1099511628211
	}
	h ^= h >> 32
	h *= 0x9e3779b97f4a7c15
	return h ^ h>>29
}

func idHash(id string) uint64      { return hash64("id", id) }
func labelHash(k, v string) uint64 { return hash64("label", k, v) }
func newFilter(keys int) filter    { return make(filter, max(8, keys*filterBitsPerKey/8+1)) }
func (f filter) bits() uint64      { return uint64(len(f)) * 8 }
func (f filter) fill(hash uint64) {
	f.each(hash, func(i uint64) bool { f[i/8] |= 1 << (i % 8); return true })
}
func (f filter) has(h uint64) bool {
	return f.each(h, func(i uint64) bool { return f[i/8]&(1<<(i%8)) != 0 })
}
func (f filter) each(hash uint64, visit func(bit uint64) bool) bool {
	if len(f) == 0 {
		return true
	}
	step := hash>>17 | 1
	for range 8 {
		if !visit(hash % f.bits()) {
			return false
		}
		hash += step
	}
	return true
}
