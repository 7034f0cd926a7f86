// Package guard stands in front of every listener and behind every call that leaves
// for one: who may call, and who is called.
//
//	Listener.Open ──► Door ──► Door.Serve: Host, Origin, token, sizes and times ──► handler
//	Token.Dial: a loopback port is called only when this user, root or the token's owner listens there
//
// A listener is one of four: a Unix socket, which the kernel guards; mutual TLS; a
// loopback port, whose callers show the token of a file that only its owner can read; and,
// when an operator insists, an open one. A page in a browser reaches none of them, whatever
// name it was loaded by. Door.Serve is the only place of the program that serves HTTP: a
// test demands it. (docs/decisions/0804.)
package guard
