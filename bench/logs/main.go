// Command logs measures how fast the command line reads the output of a task, compared with cat of
// the same bytes in the same run. It is no test: it fails only if a figure cannot be measured or
// the output differs from the task's.
package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"cantina/bench/dev"
	"cantina/bench/gauge"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	program := flag.String("cantina", "bin/cantina", "the program to measure")
	lines := flag.Int("lines", 3_000_000, "lines of about 99 bytes that the task writes")
	rounds := flag.Int("rounds", 3, "rounds; the medians count")
	flag.Parse()
	if err := bench(ctx, *program, *lines, *rounds); err != nil {
		fmt.Fprintln(os.Stderr, "logs:", err)
		os.Exit(1)
	}
}

func bench(ctx context.Context, program string, lines, rounds int) (err error) {
	d, err := dev.Start(ctx, program)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Stop()) }()
	write := fmt.Sprintf("seq -f '%%.0f is the number of a line that has about a hundred bytes, as lines of logs "+
		"usually have, or so' 1 %d", lines)
	if _, err := timed(exec.CommandContext(ctx, program,
		append(d.Flags(), "run", "-d", "--id", "big", "--", "sh", "-c", write)...), nil); err != nil {
		return err
	}
	if _, err := timed(exec.CommandContext(ctx, program, append(d.Flags(), "wait", "big")...), nil); err != nil {
		return err
	}
	copied := filepath.Join(d.Dir, "copy")
	want := sha256.New()
	if _, err := timed(exec.CommandContext(ctx, "sh", "-c", write), want); err != nil {
		return err
	}
	var logs, follow, floor []float64 // seconds
	for range rounds {
		for _, m := range []struct {
			to   *[]float64
			argv []string
		}{
			{&logs, append([]string{program, "logs", "big"}, d.Flags()...)},
			{&follow, append([]string{program, "logs", "-f", "big"}, d.Flags()...)},
			{&floor, []string{"cat", copied}},
		} {
			took, err := toFile(exec.CommandContext(ctx, m.argv[0], m.argv[1:]...), copied, want.Sum(nil), d.Dir)
			if err != nil {
				return err
			}
			*m.to = append(*m.to, took.Seconds())
		}
	}
	info, err := os.Stat(copied)
	if err != nil {
		return err
	}
	f := gauge.Median(floor)
	for _, m := range []struct {
		name string
		of   []float64
	}{{"cat", floor}, {"logs", logs}, {"logs -f", follow}} {
		d := gauge.Median(m.of)
		fmt.Printf("%-8s %d lines, %d MB: %6.2f s, %5.0f MB/s, %.2f of cat's speed, load %s\n", m.name, lines,
			info.Size()>>20,
			d, float64(info.Size())/1e6/d, f/d, gauge.Load())
	}
	return nil
}

// toFile runs c into a new file, which then takes the place of path, and checks its sum.
func toFile(c *exec.Cmd, path string, want []byte, dir string) (took time.Duration, err error) {
	f, err := os.CreateTemp(dir, "out")
	if err != nil {
		return 0, err
	}
	if took, err = timed(c, f); err != nil {
		return 0, errors.Join(err, f.Close())
	}
	sum := sha256.New()
	_, err = f.Seek(0, io.SeekStart)
	if err == nil {
		_, err = io.Copy(sum, f)
	}
	if err = errors.Join(err, f.Close(), os.Rename(f.Name(), path)); err != nil {
		return 0, err
	}
	if !slices.Equal(sum.Sum(nil), want) {
		return 0, fmt.Errorf("%s: the output is not what the task wrote", strings.Join(c.Args, " "))
	}
	return took, nil
}

func timed(c *exec.Cmd, out io.Writer) (time.Duration, error) {
	c.Stdout, c.Stderr = out, os.Stderr
	begin := time.Now()
	err := c.Run()
	return time.Since(begin), err
}
