package guard

import (
	"compress/gzip"
	"fmt"
	"io"

	"connectrpc.com/connect"
)

// Compression limits the unpacked size of a request: without it, Connect unpacks all of a body
// that is too large before it refuses it.
func Compression(limit int64) connect.HandlerOption {
	return connect.WithCompression("gzip",
		func() connect.Decompressor { return &bounded{limit: limit} },
		func() connect.Compressor { return gzip.NewWriter(io.Discard) })
}

// bounded is a reader of gzip that ends soon after its limit.
type bounded struct {
	gzip.Reader
	limit, read int64
}

// Read implements io.Reader. One byte more than the limit shows that there are more.
func (b *bounded) Read(p []byte) (int, error) {
	if b.read > b.limit {
		return 0, fmt.Errorf("more than %d bytes when unpacked: %w", b.limit, errLarge)
	}
	n, err := b.Reader.Read(p)
	b.read += int64(n)
	return n, err
}

// Reset implements connect.Decompressor.
func (b *bounded) Reset(r io.Reader) error {
	b.read = 0
	return b.Reader.Reset(r)
}
