// Package guard checks every listener's callers, and every peer that is called: who may call, and
// who is called.
//
//	Listener.Open ──► Door ──► Door.Serve: Host, Origin, token, sizes and times ──► handler
//	Token.Dial: a loopback port is called only when this user, root or the token's owner listens there
//
// A listener is one of four: a Unix socket, which the kernel guards; mutual TLS; a loopback port,
// whose callers send the token of a file that only its owner can read; and, on an operator's
// explicit request, an open one. A page in a browser reaches none of them, under any name.
// Door.Serve is the only place of the program that serves HTTP: a test checks this.
// (docs/decisions/0804.)
package guard
