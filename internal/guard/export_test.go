package guard

import "connectrpc.com/connect"

// Unpacker is the reader that Compression uses for bodies.
func Unpacker(limit int64) connect.Decompressor { return &bounded{limit: limit} }

var (
	AskKernel = askKernel
	AskProc   = askProc
)
