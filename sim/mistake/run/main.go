// Command run builds the simulator with all planted mistakes in it and runs it with one of
// them: go run ./sim/mistake/run NAME [flags of cantina sim]. Without flags it runs the
// seeds from 1 on until the mistake is found. Without a name it lists all.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"cantina/sim/mistake"
)

func main() {
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 2
	}
	os.Exit(code)
}

func run(args []string) (int, error) {
	all := mistake.All()
	if len(args) == 0 {
		for _, m := range all {
			fmt.Printf("%-28s %s\n", m.Name, m.Rule)
		}
		return 0, nil
	}
	i := slices.IndexFunc(all, func(m mistake.Mistake) bool { return m.Name == args[0] })
	if i < 0 {
		return 0, fmt.Errorf("no mistake %q; without arguments all are listed", args[0])
	}
	dir, err := os.MkdirTemp("", "mistake")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	programs, err := mistake.Build(".", dir)
	if err != nil {
		return 0, err
	}
	args = append(append(strings.Fields(all[i].Args), "--seeds", "20000"), args[1:]...)
	cmd := exec.Command(programs.Simulator, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = mistake.Environ(all[i].Name), os.Stdout, os.Stderr
	err = cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return exit.ExitCode(), nil
	}
	return 0, err
}
