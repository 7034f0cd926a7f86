// Cantina-reaper gives two guarantees for a cell. When the cell's process is gone, none of its
// processes is left (except kept ones). When the cell is stopped, hangs or is cut off, no
// deadline-bound work outlives its deadline. (Source: the note "Bistro task termination": a reaper
// that reaps when the worker is gone, kills itself last, and does TERM, wait, KILL on a SIGTERM.)
//
//	cantina-reaper watch KILLWAIT_MS [stop=DIR|keep=DIR|clean=PATTERN]...
//	cantina-reaper shim DIR
//	cantina-reaper put|take FILE
//	cantina-reaper pack|unpack PLACE
//	cantina-reaper nothing -
//
// The cell starts it; it is never started manually. Descriptor 0 of "watch" is one end of a socket
// pair, whose end of file is the death of the cell. The messages are packets of text; see
// watcher.command. "shim" owns one container that outlives its cell; see runShim. "put" and "take"
// copy one file for a container; FILE is a place.File in JSON. "pack" and "unpack" stream a tree;
// PLACE is a place.Place in JSON. "nothing" is the program of a test of a root file system.
//
// It stays small and depends only on a few leaf packages of the executor, because it must continue
// when all other parts fail.
package main

import (
	"os"
	"strconv"
	"strings"

	"cantina/executor/place"
)

func main() {
	if len(os.Args) >= 3 {
		switch os.Args[1] {
		case "watch":
			os.Exit(watch(os.Args[2:]))
		case "shim":
			os.Exit(runShim(os.Args[2]))
		case "put":
			os.Exit(carry(place.Put, os.Args[2]))
		case "take":
			os.Exit(carry(place.Take, os.Args[2]))
		case "pack":
			os.Exit(streamTree(false, os.Args[2]))
		case "unpack":
			os.Exit(streamTree(true, os.Args[2]))
		case "nothing":
			os.Exit(0)
		}
	}
	os.Stderr.WriteString("cantina-reaper is started by cantina itself\n")
	os.Exit(2)
}

// watch parses the arguments and serves.
func watch(args []string) int {
	ms, err := strconv.ParseInt(args[0], 10, 64)
	if err != nil {
		say("kill wait is not a number of milliseconds: " + args[0])
		return 2
	}
	w := newWatcher(ms)
	for _, a := range args[1:] {
		role, dir, _ := strings.Cut(a, "=")
		switch role {
		case "stop", "keep":
			w.class(dir).stop = role == "stop"
		case "clean":
			w.clean = append(w.clean, dir)
		default:
			say("unexpected input: " + a)
			return 2
		}
	}
	if err := w.run(); err != nil {
		say(err.Error())
		return 1
	}
	return 0
}

func say(text string) { os.Stderr.WriteString("cantina-reaper: " + text + "\n") }
