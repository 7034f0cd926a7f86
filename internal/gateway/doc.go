// Package gateway serves the web UI over several independent servers.
//
//	browser ── /ui/many/ ────────────► the page, as every server has it
//	        ── GET /many/servers ────► the list, and the servers that a page may add
//	        ── GET /many/v1/PATH ────► fan-out: the same read at each server, answers as they arrive
//	        ── ANY /at/SERVER/v1/PATH ► proxy: one call to one server, also streams
//
// The gateway holds no data and knows no resource: the page merges the answers. It calls only the servers
// of its list, and those that Allow permits. Its listener is guarded as a server's is (package guard).
package gateway
