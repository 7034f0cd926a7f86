// Package dev runs cantina dev for the programs of bench.
package dev

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"cantina/api"
	"cantina/internal/guard"
	pb "cantina/wire/cantinav1"
	"cantina/wire/cantinav1/cantinav1connect"
)

// Dev is a running `cantina dev` on a directory of its own.
type Dev struct {
	Dir     string
	Address string
	Client  *api.Client
	cmd     *exec.Cmd
}

// Start starts cantina dev and waits until its cell is HEALTHY.
func Start(ctx context.Context, program string) (*Dev, error) {
	dir, err := os.MkdirTemp("", "cantina-bench-")
	if err != nil {
		return nil, err
	}
	d := &Dev{Dir: dir}
	if err := d.launch(ctx, program); err != nil {
		return nil, errors.Join(err, d.Stop())
	}
	token, err := guard.ReadToken(d.tokenFile())
	if err != nil {
		return nil, errors.Join(err, d.Stop())
	}
	d.Client = api.NewClient(api.ClientConfig{Addresses: []string{d.Address}, Token: token, NewKey: rand.Text,
		Patience: 10 * time.Second})
	if err := d.untilReady(ctx); err != nil {
		return nil, errors.Join(err, d.Stop())
	}
	return d, nil
}

// Flags are what the command line needs to reach it.
func (d *Dev) Flags() []string { return []string{"--addr", d.Address, "--token-file", d.tokenFile()} }

func (d *Dev) tokenFile() string { return filepath.Join(d.Dir, "token") }

func (d *Dev) launch(ctx context.Context, program string) error {
	log, err := os.Create(filepath.Join(d.Dir, "dev.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	cmd := exec.Command(program, "dev", "--token-file", d.tokenFile(), "--data", filepath.Join(d.Dir, "data"), "--listen",
		"127.0.0.1:0", "--socket", "none", "--ready-fd", "3")
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = log, log, []*os.File{write}
	err = cmd.Start()
	write.Close()
	if err != nil {
		return fmt.Errorf("start %s: %w", program, err)
	}
	d.cmd = cmd
	text, err := bufio.NewReader(read).ReadString('\n')
	if err != nil {
		problem, _ := os.ReadFile(log.Name()) // the error above matters more
		return fmt.Errorf("cantina dev did not start: %w: %s", err, problem)
	}
	d.Address = strings.TrimSpace(text)
	return ctx.Err()
}

// untilReady waits until the cell is HEALTHY.
func (d *Dev) untilReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		got, err := api.Call(ctx, d.Client, cantinav1connect.CantinaServiceClient.ListCells, &pb.ListCellsRequest{})
		if err == nil && len(got.Cells) == 1 && got.Cells[0].Session == "HEALTHY" {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("the cell did not become HEALTHY: %w", ctx.Err()), err)
		case <-tick.C:
		}
	}
}

// Stop ends cantina dev and removes its directory.
func (d *Dev) Stop() error {
	var err error
	if d.Client != nil {
		d.Client.Close()
	}
	if d.cmd != nil {
		err = errors.Join(d.cmd.Process.Signal(syscall.SIGTERM), d.cmd.Wait())
	}
	return errors.Join(err, os.RemoveAll(d.Dir))
}

// CPU is the processor time of cantina dev and of all that it ran, once it ended.
func (d *Dev) CPU() time.Duration {
	if d.cmd == nil || d.cmd.ProcessState == nil {
		return 0
	}
	return d.cmd.ProcessState.UserTime() + d.cmd.ProcessState.SystemTime()
}
