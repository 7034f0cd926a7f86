package guard

import "connectrpc.com/connect"

// Unpacker is what Compression reads bodies with.
func Unpacker(limit int64) connect.Decompressor { return &bounded{limit: limit} }

var (
	AskKernel = askKernel
	AskProc   = askProc
)
