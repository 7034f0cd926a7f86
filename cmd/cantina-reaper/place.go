package main

import (
	"context"
	"encoding/json"

	"cantina/executor/place"
)

// carry does what is asked of a file outside a container's folder: the file system that it
// is on may hang, and this process with it. What goes wrong is said on standard error.
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
