package main

import (
	"cmp"
	"os"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/structpb"

	"cantina/api"
	"cantina/executor/doctor"
	"cantina/internal/text"
)

// existingData is the first of the default data directories that is there; "" = none.
func existingData(c *cli) string {
	for _, name := range []string{"cell", "dev"} {
		if info, err := os.Stat(c.dataDir(name)); err == nil && info.IsDir() {
			return c.dataDir(name)
		}
	}
	return ""
}

func doctorVerb(c *cli) *cobra.Command {
	var dir, reaper, user string
	var stuck stuckFlags
	t := table[*structpb.Struct]{
		id: textOfField("name"),
		columns: []column[*structpb.Struct]{
			{name: "CHECK", text: textOfField("name")}, {name: "LEVEL", text: textOfField("level")},
			{name: "DETAIL", text: textOfField("detail")},
		},
	}
	cmd := &cobra.Command{
		Use: "doctor", Short: "Check which isolation this machine supports", Args: atMost(0, "none"),
		Long: "doctor runs real containers as a cell would, and reports supported, unenforced and leaking " +
			"features. It needs no server. Exits 1 if a failure would keep a cell from running containers.",
		Example: "  cantina doctor\n  cantina doctor -o json | jq '.[] | select(.level != \"ok\")'",
		RunE: func(*cobra.Command, []string) error {
			reboot, err := stuck.command()
			if err != nil {
				return err
			}
			ctx, cancel := c.limited()
			defer cancel()
			if dir == "" {
				dir = existingData(c)
			}
			r, err := doctor.Examine(ctx, doctor.Options{Dir: dir, Reaper: cmp.Or(reaper, c.Reaper), Reboot: reboot, User: user})
			if err != nil {
				return failf(api.ExitFailed, "%v", err)
			}
			var rows []*structpb.Struct
			for _, f := range r.Findings {
				rows = append(rows, textFields(map[string]string{"name": text.Clean(f.Name), "level": f.Level.String(),
					"detail": text.Clean(f.Detail)}))
			}
			if err := list(c, t, rows); err != nil {
				return err
			}
			if r.Worst() == doctor.Failure {
				return code(api.ExitFailed)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "",
		"directory to work in (default: the data directory if it exists, else the system's temporary "+
			"directory)")
	cmd.Flags().StringVar(&reaper, "reaper", "", "path to cantina-reaper (default: the built-in one)")
	stuck.choose(cmd)
	defaultUserFlag(cmd, &user)
	c.waiting(cmd)
	return c.reading(cmd)
}
