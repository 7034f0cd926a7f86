// Command cantina-dist makes the files of a release from the source in the current directory (make dist).
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"cantina/packaging"
)

func main() {
	out := flag.String("out", "dist", "directory of the files; it is emptied")
	version := flag.String("version", "", "version of the release")
	commit := flag.String("commit", "", "revision of the source, which cantina version prints")
	archs := flag.String("arch", "amd64,arm64", "processors, as GOARCH")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := makeAll(ctx, *out, *version, *commit, strings.Split(*archs, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "cantina-dist:", err)
		stop()
		os.Exit(1)
	}
}

func makeAll(ctx context.Context, out, version, commit string, archs []string) error {
	r, err := release(ctx, version)
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "cantina-dist-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	// Pages and completions are printed by a program for this machine.
	b := builder{flags: "-s -w -X main.version=" + version + " -X main.commit=" + commit, dir: temp}
	own, err := b.build(ctx, runtime.GOARCH)
	if err != nil {
		return err
	}
	pages := filepath.Join(temp, "pages")
	if err := r.Pages(ctx, own, pages); err != nil {
		return err
	}
	for _, arch := range archs {
		x := packaging.Build{Arch: arch, Program: own, Pages: pages}
		if arch != runtime.GOARCH {
			if x.Program, err = b.build(ctx, arch); err != nil {
				return err
			}
		}
		name := filepath.Join(out, "cantina_"+version+"_linux_"+arch)
		for suffix, write := range map[string]func(to string) error{
			".tar.gz":       func(to string) error { return r.Archive(x, to) },
			".deb":          func(to string) error { return r.Deb(ctx, x, to, "xz") },
			".image.tar":    func(to string) error { return r.Image(x, to) },
			".bom.cdx.json": func(to string) error { return r.BOM(x, to) },
		} {
			if err := write(name + suffix); err != nil {
				return err
			}
		}
	}
	return packaging.Sums(out)
}

// release describes the source in the current directory.
func release(ctx context.Context, version string) (packaging.Release, error) {
	r := packaging.Release{Version: version, Source: "."}
	if version == "" {
		return r, fmt.Errorf("set --version")
	}
	changelog, err := os.ReadFile("CHANGELOG.md")
	if err != nil {
		return r, err
	}
	if r.Next, err = packaging.NextVersion(changelog); err != nil {
		return r, err
	}
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		of, err := exec.CommandContext(ctx, "git", "log", "-1", "--format=%ct").Output()
		if err != nil {
			return r, fmt.Errorf("time of the commit: %w (set SOURCE_DATE_EPOCH outside of a repository)", err)
		}
		text = strings.TrimSpace(string(of))
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return r, fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	r.Time = time.Unix(seconds, 0).UTC()
	return r, nil
}

// builder compiles into a directory.
type builder struct {
	dir   string
	flags string // of the linker
}

// build compiles the program for a processor and returns its path. The reaper of that processor is part of it.
func (b builder) build(ctx context.Context, arch string) (string, error) {
	reaper, program := filepath.Join(b.dir, "reaper-"+arch), filepath.Join(b.dir, "cantina-"+arch)
	env := append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch, "GOFLAGS=")
	if err := command(ctx, env, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", reaper,
		"./cmd/cantina-reaper"); err != nil {
		return "", err
	}
	embedded, err := filepath.Abs("executor/reaperbin/cantina-reaper")
	if err != nil {
		return "", err
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {embedded: reaper}})
	if err != nil {
		return "", err
	}
	list := filepath.Join(b.dir, "overlay.json")
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		return "", err
	}
	return program, command(ctx, env, "go", "build", "-trimpath", "-overlay", list, "-buildvcs=false",
		"-ldflags="+b.flags, "-o", program, "./cmd/cantina")
}

// command runs a program.
func command(ctx context.Context, env []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = env, os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return nil
}
