package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/structpb"

	pb "cantina/wire/cantinav1"
)

// sourceCommit is the revision of the source, from the linker or as Go has recorded it; empty = unknown.
func sourceCommit() string {
	if commit != "" {
		return commit
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return ""
}

func versionVerb(c *cli) *cobra.Command {
	var clientOnly bool
	t := table[*structpb.Struct]{
		id: textOfField("client"),
		columns: []column[*structpb.Struct]{
			{name: "CLIENT", text: textOfField("client")},
			{name: "COMMIT", text: textOfField("commit")},
			{name: "GO", text: textOfField("go")},
			{name: "SERVER", text: textOfField("server")},
		},
	}
	cmd := &cobra.Command{
		Use: "version", Short: "Print the versions of client and server", Args: atMost(0, "none"),
		Long:    "version prints the version of this program and of the server. It succeeds without a server, too.",
		Example: "  cantina version\n  cantina version --client -o json",
		RunE: func(*cobra.Command, []string) error {
			x := textFields(map[string]string{"client": version, "commit": sourceCommit(), "go": runtime.Version(),
				"platform": runtime.GOOS + "/" + runtime.GOARCH, "server": ""})
			c.impatient = true
			if !clientOnly {
				if got, err := call(c, calls.GetStatus, &pb.GetStatusRequest{}); err == nil {
					x.Fields["server"] = structpb.NewStringValue(got.Status.Build)
				}
			}
			return one(c, t, x)
		},
	}
	cmd.Flags().BoolVar(&clientOnly, "client", false, "do not contact a server")
	return c.reading(cmd)
}
