package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// servers is how many servers `cantina-demo ui` starts.
const servers = 3

// driveMany is `cantina-demo ui`: independent servers with a part of the work each, and one web UI over them.
func driveMany(args []string) (err error) {
	fs := flag.NewFlagSet("ui", flag.ContinueOnError)
	program := fs.String("cantina", "bin/cantina", "the program")
	file := fs.String("spec", "examples/demo/shard.yaml", "the spec file of one server")
	listen := fs.String("listen", "127.0.0.1:0", "address of the web UI")
	if err := fs.Parse(args); err != nil {
		return errUsage
	}
	text, err := os.ReadFile(*file)
	if err != nil {
		return err
	}
	shared, err := os.MkdirTemp("", "cantina-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(shared)
	ctx, stop := untilSignal()
	defer stop()
	var all []*demo
	defer func() {
		for _, d := range all {
			err = errors.Join(err, d.stop())
		}
		if ctx.Err() != nil && err == nil {
			fmt.Fprintln(os.Stderr, "interrupted: everything is stopped, nothing is left")
		}
	}()
	var list []string
	for i := 1; i <= servers; i++ {
		d := &demo{cantina: *program, name: fmt.Sprintf("db%d", i), shared: filepath.Join(shared, "token")}
		all = append(all, d)
		if err := d.start(ctx); err != nil {
			return err
		}
		list = append(list, d.address)
		// The last server has another definition, as after an incomplete change.
		spec := strings.NewReplacer("PART", fmt.Sprintf("%d/%d", i, servers), "HOST", d.name,
			"RETRIES", fmt.Sprint(i/servers)).Replace(string(text))
		// Beside the original: its paths are relative.
		d.spec = filepath.Join(filepath.Dir(*file), "."+filepath.Base(shared)+"-"+d.name+".yaml")
		err := os.WriteFile(d.spec, []byte(spec), 0o600)
		if err == nil {
			_, err = d.run(ctx, "apply", d.spec)
			err = errors.Join(err, os.Remove(d.spec))
		}
		if err != nil {
			return fmt.Errorf("apply at %s: %w", d.name, err)
		}
	}
	ui := exec.CommandContext(ctx, *program, "ui", "--servers", strings.Join(list, ","), "--listen", *listen,
		"--token-file", filepath.Join(shared, "token"))
	ui.Stdout, ui.Stderr, ui.SysProcAttr = os.Stdout, os.Stderr, apart()
	ui.Cancel = func() error { return ui.Process.Signal(os.Interrupt) }
	fmt.Fprintln(os.Stderr,
		"• open the link; click Jobs, the job, a server, a red bar, a batch task. Ctrl-C ends all of it")
	if err := ui.Run(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("cantina ui: %w", err)
	}
	return nil
}
