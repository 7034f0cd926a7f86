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
	var t place.Tree
	err := json.Unmarshal([]byte(text), &t)
	if err == nil {
		err = t.Enter()
	}
	if err == nil && unpack {
		err = place.Unpack(context.Background(), os.Stdin, t.Path, t.Name, t.Most)
	} else if err == nil {
		err = place.Pack(context.Background(), t.Path, os.Stdout)
	}
	if err != nil {
		say(err.Error())
		return 1
	}
	return 0
}
