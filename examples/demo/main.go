// Command cantina-demo is the work of the demo and its driver.
//
// The work: `web` is a small HTTP server, `toolchain` a one-off task,
// `packages` and `files` list the nodes of the job, `measure` is one batch task.
// The driver, `run`, starts cantina on this machine, applies the spec, watches
// it, checks every result against find and sha256sum, and leaves nothing behind.
// `ui` starts three servers and one web UI over them.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// goroot is the directory of the Go installation whose standard library is measured; make sets it,
// else `go env GOROOT` is called.
var goroot string

var errUsage = errors.New("usage: cantina-demo run|ui|web|toolchain|" +
	"packages [PART/PARTS] HOST|files PACKAGE|measure FILE")

func main() {
	if err := command(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "cantina-demo:", err)
		if errors.Is(err, errUsage) {
			os.Exit(2)
		}
		os.Exit(1)
	}
}

func command(args []string) error {
	if len(args) == 0 {
		return errUsage
	}
	if args[0] == "run" {
		return drive(args[1:])
	}
	if args[0] == "ui" {
		return driveMany(args[1:])
	}
	if args[0] == "web" {
		return web()
	}
	src, err := sourceRoot()
	if err != nil {
		return err
	}
	switch {
	case args[0] == "toolchain":
		return toolchain(src)
	case args[0] == "packages" && len(args) == 2:
		return packages(src, 0, 1)
	case args[0] == "packages" && len(args) == 3:
		var part, parts int
		if n, err := fmt.Sscanf(args[1], "%d/%d", &part, &parts); n != 2 || err != nil || part < 1 || part > parts {
			return errUsage
		}
		return packages(src, part-1, parts)
	case args[0] == "files" && len(args) == 2:
		return files(src, args[1])
	case args[0] == "measure" && len(args) == 2:
		return measure(src, args[1])
	}
	return errUsage
}

// sourceRoot returns the directory src of the Go installation.
func sourceRoot() (string, error) {
	root := goroot
	if root == "" {
		out, err := exec.Command("go", "env", "GOROOT").Output()
		if err != nil {
			return "", fmt.Errorf("go env GOROOT: %w", err)
		}
		root = strings.TrimSpace(string(out))
	}
	return root + "/src", nil
}
