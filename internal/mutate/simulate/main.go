// Command simulate runs the simulator alone, for changes of the packages below it.
package main

import (
	"os"

	"cantina/sim"
)

func main() { os.Exit(sim.Main(os.Args[1:], os.Stdout, os.Stderr)) }
