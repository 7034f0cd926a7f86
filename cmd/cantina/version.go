package main

import (
	"runtime"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/structpb"

	pb "cantina/wire/cantinav1"
)

func versionVerb(c *cli) *cobra.Command {
	var clientOnly bool
	t := table[*structpb.Struct]{
		id: func(x *structpb.Struct) string { return x.Fields["client"].GetStringValue() },
		columns: []column[*structpb.Struct]{
			{name: "CLIENT", text: func(x *structpb.Struct) string { return x.Fields["client"].GetStringValue() }},
			{name: "GO", text: func(x *structpb.Struct) string { return x.Fields["go"].GetStringValue() }},
			{name: "SERVER", text: func(x *structpb.Struct) string { return x.Fields["server"].GetStringValue() }},
		},
	}
	cmd := &cobra.Command{
		Use: "version", Short: "Print the versions of client and server", Args: atMost(0, "none"),
		Long:    "version prints the version of this program and of the server. It succeeds without a server, too.",
		Example: "  cantina version\n  cantina version --client -o json",
		RunE: func(*cobra.Command, []string) error {
			x := &structpb.Struct{Fields: map[string]*structpb.Value{
				"client": structpb.NewStringValue(version), "go": structpb.NewStringValue(runtime.Version()),
				"platform": structpb.NewStringValue(runtime.GOOS + "/" + runtime.GOARCH), "server": structpb.NewStringValue(""),
			}}
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
