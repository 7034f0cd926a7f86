// Package batch decides which job runs on which node next: data-parallel jobs over a forest of
// nodes (Bistro: levels, nodes, jobs, statuses, policies).
//
// A Forest holds the nodes and, per level, the ledger of their resources. A Board holds the jobs
// over one forest, the status of every batch task (job, node), and a tournament per job that
// always knows the best node that could start now. So the cost of a pass grows with the freed and
// due tasks, never with jobs × nodes.
//
// The states of a batch task (bits as in Bistro):
//
//	                   Start                    Finish(done)
//	unstarted ───────────────────▶ running ─────────────────────▶ done
//	    ▲                        ▲    │  │ Finish(failed, or retries spent)
//	    │ Reset                  │    │  └──────────────────────▶ failed ──┐
//	    │                 due    │    ▼ Finish(error, incomplete)          │ Retry
//	    └── any          waiting ◀── error / incomplete ◀──────────────────┘
//
// The scheduler owns Boards and calls them from one goroutine. Nothing here reads a clock;
// wall-clock times are Unix milliseconds passed in.
package batch
