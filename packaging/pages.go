package packaging

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// Pages has a program for this machine write its manual pages and completion scripts to a directory. They are those of
// the user root, whoever calls.
func (r Release) Pages(ctx context.Context, program, dir string) error {
	of := func(args ...string) ([]byte, error) {
		cmd := exec.CommandContext(ctx, program, args...)
		cmd.Env = []string{"SOURCE_DATE_EPOCH=" + strconv.FormatInt(r.Time.Unix(), 10), "XDG_DATA_HOME=/var/lib",
			"HOME=/nonexistent"}
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", program, args[0], err)
		}
		return out, nil
	}
	if _, err := of("man", "--dir", dir); err != nil {
		return err
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		text, err := of("completion", shell)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, shell), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
