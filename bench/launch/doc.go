// Command launch measures how many processes a second cantina runs, end to end,
// as tasks and as batch tasks, against a floor of the same run: a bare loop of
// os/exec with two workers, and xargs -P2. The forms take turns in each round, so
// that a busy machine is unkind to all of them, and medians of all rounds are
// printed with the load average. It is called by scripts/bench and nothing else.
package main
