// Command cantina runs services, one-off tasks, data-parallel batch jobs and schedules. `cantina
// dev` is a whole cluster in one process, `cantina server` and `cantina cell` are its two halves,
// every other verb is a client of the API.
//
// This package has flags, wiring, start order and one file per verb, and makes no decisions. It
// prints data to standard output and everything else to standard error. `cantina help exit-codes`
// lists the exit codes.
package main

import (
	"context"
	"os"
	"time"

	"cantina/executor/reaper"
	"cantina/executor/reaperbin"
)

// version and commit are set by the linker.
var version, commit = "dev", ""

func main() {
	if reaper.Called(os.Args) {
		os.Exit(reaper.Main(os.Args[1:]))
	}
	os.Exit(invoke(context.Background(), os.Args[1:], process()))
}

// process is the surroundings of a real invocation.
func process() environment {
	own := ""
	if !reaperbin.Embedded() {
		own = reaperbin.Own
	}
	return environment{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv, LookupEnv: os.LookupEnv, Now: time.Now,
		InTTY: isTerminal(os.Stdin), OutTTY: isTerminal(os.Stdout), ErrTTY: isTerminal(os.Stderr), Width: terminalWidth,
		Height:     terminalHeight,
		Interrupts: interrupts, Reaper: own,
	}
}
