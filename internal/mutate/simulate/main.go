// Command simulate is `cantina sim` alone, for builds of changed sources.
package main

import (
	"os"

	"cantina/sim"
)

func main() { os.Exit(sim.Main(os.Args[1:], os.Stdout, os.Stderr)) }
