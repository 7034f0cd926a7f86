package main

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"cantina/api"
	"cantina/bistro"
	"cantina/spec"
	pb "cantina/wire/cantinav1"
)

func jobImportVerb(c *cli) *cobra.Command {
	var domain string
	var command []string
	var check, prune bool
	cmd := &cobra.Command{
		Use: "import FILE.json", Short: "Import a configuration file of Bistro", Args: exactly(1, "FILE.json"),
		Long: "import reads bistro_settings and the jobs bistro_job->NAME, and applies the jobs to a domain in one " +
			"commit. All share the nodes of bistro_settings. A job with errors is invalid: it is listed with them, " +
			"starts nothing, and does not affect the others. An error in bistro_settings refuses the file, with all errors " +
			"and their places. plan and apply read such a file, too.\n" +
			"\n" +
			"--check prints the file with its effective values, including inherited ones and the errors of jobs, and " +
			"changes nothing. It exits with 1 if a job is invalid.",
		Example: "  cantina job import bistro.json --check\n" +
			"  cantina job import bistro.json --command /usr/bin/worker --prune --yes",
		RunE: func(_ *cobra.Command, args []string) error {
			files, err := readSource(c, args[0])
			if err != nil {
				return err
			}
			if len(files) != 1 {
				return failf(api.ExitUsage, "%s: import reads one file", args[0])
			}
			f := files[0]
			f.Content, f.BistroDomain = bistro.WithCommand(f.Content, command), domain
			if !bistro.Is(f.Content) {
				return failf(api.ExitUsage, "%s: no bistro_settings: it is no configuration file of Bistro; for spec files: "+
					"cantina apply", f.Name)
			}
			if _, err := parseSpecs(c, files); err != nil {
				return err
			}
			if check {
				return printBistro(c, f.Content)
			}
			if prune {
				if err := c.confirm("remove the jobs of domain %s that are not in %s", domain, f.Name); err != nil {
					return err
				}
			}
			got, err := call(c, calls.Apply, &pb.ApplyRequest{Files: files, Prune: prune})
			if err != nil {
				return err
			}
			return printChanges(c, got.Domains)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&domain, "domain", spec.BistroDomain, "domain of the jobs")
	fl.StringArrayVar(&command, "command", nil, "program of jobs without command, and each of its arguments "+
		"(Bistro's --worker_command)")
	fl.BoolVar(&check, "check", false, "print the effective values and errors, and change nothing")
	fl.BoolVar(&prune, "prune", false, "remove the jobs of the domain that are not in the file")
	c.needYes(cmd)
	c.waiting(cmd)
	return c.reading(cmd)
}

// printBistro prints the effective values of a file.
func printBistro(c *cli, data []byte) error {
	config, err := bistro.Parse(data)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		return err
	}
	if err := line(c.Out, string(text)); err != nil {
		return err
	}
	for _, j := range config.Jobs {
		if j.Errors != nil {
			return code(api.ExitFailed)
		}
	}
	return nil
}
