package main

import (
	"time"

	"github.com/spf13/cobra"

	"cantina/api"
)

// stuckFlags set the action of a cell with a process that survives KILL.
type stuckFlags struct {
	mode   string
	reboot string
	after  time.Duration
}

// The modes of --stuck.
const (
	stuckKeep   = "keep-unclean"
	stuckReboot = "reboot"
)

func (f *stuckFlags) add(cmd *cobra.Command) {
	f.choose(cmd)
	longerVar(cmd.Flags(), &f.after, "stuck-after", 5*time.Second,
		"delay after KILL before a container that is not empty counts as STUCK_KILLING")
}

// choose adds the flags of the action, without the delay.
func (f *stuckFlags) choose(cmd *cobra.Command) {
	f.after = time.Second
	p := cmd.Flags()
	choiceVar(p, &f.mode, "stuck", "", stuckKeep, []string{stuckKeep, stuckReboot},
		"action when work past its deadline does not die: keep-unclean (the cell stays without new "+
			"work) or reboot (run --reboot-command once)")
	p.StringVar(&f.reboot, "reboot-command", "reboot -f", "shell command of --stuck=reboot")
}

// command is run for a stuck container; nil = nothing.
func (f *stuckFlags) command() ([]string, error) {
	switch {
	case f.mode == stuckKeep:
		return nil, nil
	case f.reboot == "":
		return nil, failf(api.ExitUsage, "--stuck=%s needs a --reboot-command", stuckReboot)
	}
	return []string{"/bin/sh", "-c", f.reboot}, nil
}
