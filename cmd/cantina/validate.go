package main

import (
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/structpb"

	"cantina/spec"
)

func validateVerb(c *cli) *cobra.Command {
	var files []string
	kind, domain, name := textOfField("kind"), textOfField("domain"), textOfField("name")
	t := table[*structpb.Struct]{
		id: func(x *structpb.Struct) string { return kind(x) + "/" + domain(x) + "/" + name(x) },
		columns: []column[*structpb.Struct]{
			{name: "KIND", text: kind}, {name: "DOMAIN", text: domain}, {name: "NAME", text: name},
		},
	}
	cmd := &cobra.Command{
		Use:   "validate FILE|DIR|-|URL ...",
		Short: "Check spec files without a server",
		Long: "validate checks spec files and lists their resources. It needs no server; rules that depend on the " +
			"stored state are checked by plan. Exits 2 if there are errors.",
		Example: "  cantina validate cantina.yaml\n" +
			"  cantina validate services/ -o name\n" +
			"  generate | cantina validate -",
		RunE: func(_ *cobra.Command, args []string) error {
			_, parsed, err := loadSpecs(c, "validate", append(files, args...))
			if err != nil {
				return err
			}
			for _, f := range parsed {
				for _, w := range f.Warnings {
					c.sayf("warning: %s\n", w)
				}
			}
			return list(c, t, resourcesOf(parsed))
		},
	}
	cmd.Flags().StringSliceVarP(&files, "file", "f", nil,
		"spec file, directory of spec files, - for standard input, or URL")
	c.waiting(cmd)
	return c.reading(cmd)
}

// resourcesOf lists the resources of spec files by domain and kind.
func resourcesOf(files []*spec.File) []*structpb.Struct {
	var rows []*structpb.Struct
	for _, f := range files {
		add := func(kind, name string) {
			rows = append(rows, textFields(map[string]string{"kind": kind, "domain": f.Domain, "name": name}))
		}
		for _, s := range f.Services {
			add("service", s.Service.Name)
		}
		for _, x := range f.Tasks {
			add("task", x.Name)
		}
		for _, x := range f.Jobs {
			add("job", x.Job.ShortName())
		}
		for _, x := range f.Schedules {
			add("schedule", x.Name)
		}
	}
	return rows
}
