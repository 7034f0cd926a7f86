// Package reaper gives two guarantees for a cell. When the cell's process is gone, none of its
// processes is left (except kept ones). When the cell is stopped, hangs or is cut off, no
// deadline-bound work outlives its deadline. (Source: the note "Bistro task termination": a reaper
// that reaps when the worker is gone, kills itself last, and does TERM, wait, KILL on a SIGTERM.)
//
//	cantina-reaper watch KILLWAIT_MS [stop=DIR|keep=DIR|clean=PATTERN]...
//	cantina-reaper shim DIR
//	cantina-reaper put|take FILE
//	cantina-reaper pack|unpack PLACE
//
// The cell starts it; it is never started manually. Descriptor 0 of "watch" is one end of a socket
// pair, whose end of file is the death of the cell. The messages are packets of text; see
// watcher.command. "shim" owns one container that outlives its cell; see runShim. "put" and "take"
// copy one file for a container; FILE is a place.File in JSON. "pack" and "unpack" stream a tree;
// PLACE is a place.Place in JSON.
//
// It stays small and depends only on a few leaf packages of the executor, because it must continue
// when all other parts fail. Command cantina-reaper is this package alone, and cantina embeds it.
// A cantina that was built without it is its own reaper when its argv[0] is Name.
package reaper

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"cantina/executor/place"
)

// Name is argv[0] of every reaper, and the name of its process.
const Name = "cantina-reaper"

// Called reports whether a program with these arguments was started as the reaper.
func Called(args []string) bool { return len(args) > 0 && filepath.Base(args[0]) == Name }

// Main runs the reaper with the arguments of its process, without argv[0], and returns the exit code.
func Main(args []string) int {
	if len(args) >= 2 {
		os.WriteFile("/proc/self/comm", []byte(Name), 0)
		switch args[0] {
		case "watch":
			return watch(args[1:])
		case "shim":
			return runShim(args[1])
		case "put":
			return carry(place.Put, args[1])
		case "take":
			return carry(place.Take, args[1])
		case "pack":
			return streamTree(false, args[1])
		case "unpack":
			return streamTree(true, args[1])
		}
	}
	os.Stderr.WriteString("cantina-reaper is started by cantina itself\n")
	return 2
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
