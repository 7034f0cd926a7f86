package reaper

import (
	"context"
	"encoding/json"
	"os"

	"cantina/executor/place"
)

// carry performs an operation on a file outside a container's directory: its file system may hang,
// and this process with it. It prints errors to standard error.
func carry(what func(context.Context, place.File) error, text string) int {
	var f place.File
	err := json.Unmarshal([]byte(text), &f)
	if err == nil {
		err = what(context.Background(), f)
	}
	if err != nil {
		say(err.Error())
		return 1
	}
	return 0
}

// streamTree packs a place onto standard output, or unpacks one from standard input.
func streamTree(unpack bool, text string) int {
	var p place.Place
	err := json.Unmarshal([]byte(text), &p)
	if err == nil && unpack {
		err = place.UnpackStream(context.Background(), p, os.Stdin)
	} else if err == nil {
		err = place.Pack(context.Background(), p, os.Stdout)
	}
	if err != nil {
		say(err.Error())
		return 1
	}
	return 0
}
