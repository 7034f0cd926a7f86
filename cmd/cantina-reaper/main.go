// Cantina-reaper is package reaper as a small program of its own, which make embeds in cantina.
package main

import (
	"os"

	"cantina/executor/reaper"
)

func main() { os.Exit(reaper.Main(os.Args[1:])) }
