// Command launch measures how many processes a second cantina runs, end to end,
// as tasks and as batch tasks, against a floor of the same run: a bare loop of
// os/exec with two workers, and xargs -P2. It prints medians of several rounds.
package main
