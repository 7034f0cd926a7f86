package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// measurement is the data of one batch task.
type measurement struct {
	Lines  int    `json:"lines"`
	Bytes  int    `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// measure computes the figures of one file and reports them as the data of the
// batch task: one line of JSON into the status pipe.
func measure(src, name string) error {
	text, err := os.ReadFile(filepath.Join(src, name))
	if err != nil {
		return err
	}
	sum := sha256.Sum256(text)
	m := measurement{Lines: bytes.Count(text, []byte("\n")), Bytes: len(text), SHA256: hex.EncodeToString(sum[:])}
	line, err := json.Marshal(map[string]any{"result": "done", "data": m})
	if err != nil {
		return err
	}
	status := os.Getenv("CANTINA_STATUS")
	if status == "" {
		fmt.Println(string(line))
		return nil
	}
	pipe, err := os.OpenFile(status, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer pipe.Close()
	_, err = fmt.Fprintln(pipe, string(line))
	return err
}

// packages prints the directories that hold a Go file, one a line: every one whose number is part, modulo parts.
func packages(src string, part, parts int) error {
	last, n := "", 0
	return walk(src, func(name string) {
		if dir := filepath.Dir(name); dir != last {
			if last = dir; n%parts == part {
				fmt.Println(dir)
			}
			n++
		}
	})
}

// files prints the Go files that lie in the directory pkg itself.
func files(src, pkg string) error {
	entries, err := os.ReadDir(filepath.Join(src, pkg))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Type().IsRegular() && strings.HasSuffix(e.Name(), ".go") {
			fmt.Println(filepath.Join(pkg, e.Name()))
		}
	}
	return nil
}

// walk calls f for every Go file below src, directory by directory: the files of one
// directory come one after the other.
func walk(src string, f func(name string)) error {
	var dirs []string
	err := filepath.WalkDir(src, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if !e.Type().IsRegular() || !strings.HasSuffix(e.Name(), ".go") {
				continue
			}
			rel, err := filepath.Rel(src, filepath.Join(dir, e.Name()))
			if err != nil {
				return err
			}
			f(rel)
		}
	}
	return nil
}

// toolchain leaves the version of the toolchain and the number of its packages
// as the result of the task.
func toolchain(src string) error {
	version, err := exec.Command("go", "version").Output()
	if err != nil {
		return fmt.Errorf("go version: %w", err)
	}
	list, err := exec.Command("go", "list", "std").Output()
	if err != nil {
		return fmt.Errorf("go list std: %w", err)
	}
	result, err := json.Marshal(map[string]any{
		"version":  strings.TrimSpace(string(version)),
		"packages": bytes.Count(list, []byte("\n")),
		"source":   src,
	})
	if err != nil {
		return err
	}
	fmt.Printf("%s, %d packages\n", bytes.TrimSpace(version), bytes.Count(list, []byte("\n")))
	return os.WriteFile("result.json", result, 0o644)
}

// web serves cantina's data about the job, on its allocated port. It reads the results from the
// public API at request time and keeps nothing.
func web() error {
	port, api := os.Getenv("PORT"), os.Getenv("CANTINA_API")
	if port == "" || api == "" {
		return errors.New("PORT and CANTINA_API must be set: run it as a service with api: true")
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		results(w, r, api)
	})
	listener, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		return err
	}
	fmt.Printf("instance %s serves the results on http://127.0.0.1:%s/\n", os.Getenv("CANTINA_INDEX"), port)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	<-ctx.Done()
	quiet, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	err = server.Shutdown(quiet)
	if served := <-done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
