package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"cantina/api"
)

// topics are the help pages beside those of the verbs.
func topics() map[string]struct{ short, text string } {
	return map[string]struct{ short, text string }{
		"exit-codes": {"What the exit codes mean", exitCodes},
		"subjects":   {"How services, tasks, jobs and cells are named", subjectHelp + "\n"},
		"output":     {"Forms of output, colours and times", outputHelp},
		"addresses":  {"How a server is found", addressHelp},
	}
}

const exitCodes = `EXIT CODES
  0    done, or nothing to do
  1    refused, or failed
  2    wrong usage, or a spec file with mistakes: nothing was done
  3    not found, or collected
  4    timed out (--timeout)
  5    no connection to a server, or not allowed
  6    lost: nobody knows how far it came
  10   plan: there are changes
  130  detached by Ctrl-C; what was followed goes on

  run and wait end with the program's own code, and with 128+n when signal n ended it; --client-exit-code gives
  0, 1 or 6 instead. wait for a job gives 1 when some of it failed.
`

const outputHelp = `OUTPUT
  Data goes to standard output; progress, notes, warnings and questions go to standard error. -q prints ids only.

  -o table   for people: one row per item, fitted to the terminal, in full when piped (--no-trunc)
  -o wide    more columns; --columns a,b chooses, --no-header drops the first line
  -o json    a list of objects, or one object; the same fields as the API
  -o jsonl   one object a line
  -o yaml    the same as YAML
  -o name    ids only
  --template a Go template for each item, over its JSON: --template '{{.name}} {{.running}}'

  Times are relative on a terminal and RFC 3339 with their zone elsewhere; --utc and --tz choose the zone.
  Colours only on a terminal; --color=always|never and NO_COLOR decide otherwise.
`

const addressHelp = `ADDRESSES
  A server is named by --addr, else by CANTINA_ADDR (several with commas; any of them may lead), else it is the
  cantina dev or server that left its socket in $XDG_RUNTIME_DIR/cantina or /run/cantina, else 127.0.0.1:7480.
  An address is host:port, or unix:PATH. Servers with mutual TLS need --tls-cert, --tls-key and --tls-ca. A loopback
  port needs the token of its server's user, which is read from --token-file by itself (CANTINA_TOKEN has one, too).
`

func (c *cli) helpVerb(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use: "help [VERB|TOPIC]", Short: "Help about a verb or topic",
		Long:    "help prints the page of a verb, or of a topic: " + strings.Join(topicNames(), ", ") + ".",
		Example: "  cantina help run\n  cantina help exit-codes\n  cantina help topics",
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return root.Help()
			}
			if t, ok := topics()[args[0]]; ok {
				_, err := fmt.Fprint(c.Out, t.text)
				return err
			}
			if args[0] == "topics" {
				for _, n := range topicNames() {
					if err := line(c.Out, fmt.Sprintf("%-12s %s", n, topics()[n].short)); err != nil {
						return err
					}
				}
				return nil
			}
			cmd, rest, err := root.Find(args)
			if err != nil || cmd == root || len(rest) > 0 {
				return failf(api.ExitUsage, "no help about %q; see cantina help and cantina help topics", strings.Join(args, " "))
			}
			return cmd.Help()
		},
	}
}

func topicNames() []string {
	var names []string
	for n := range topics() {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// widestHelp is how wide prose is at most on a terminal.
const widestHelp = 110

// help has pages fit a terminal; elsewhere they stay as they are.
func (c *cli) help(root *cobra.Command) {
	width := 0
	if c.OutTTY {
		width = min(c.Width(), widestHelp)
	}
	root.SetHelpTemplate(strings.ReplaceAll(helpText, "FlagUsages", fmt.Sprintf("FlagUsagesWrapped %d", width)))
	show := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		cmd.Long = fill(cmd.Long, width)
		// In one piece: the library tells an error of its writer without saying who it is.
		var page bytes.Buffer
		cmd.SetOut(&page)
		show(cmd, args)
		_, _ = c.Out.Write(page.Bytes()) // the output keeps its error
	})
}

// fill sets paragraphs anew, so that no line is longer than width when words allow
// it; 0 = as they are. Lines that begin with a space stay.
func fill(text string, width int) string {
	if width == 0 {
		return text
	}
	var out strings.Builder
	at := 0 // where the line stands
	for n, l := range strings.Split(text, "\n") {
		if n > 0 && (l == "" || l[0] == ' ' || at == 0) {
			out.WriteByte('\n')
			at = 0
		}
		if strings.HasPrefix(l, " ") {
			out.WriteString(l)
			continue
		}
		for _, w := range strings.Fields(l) {
			size := utf8.RuneCountInString(w)
			switch {
			case at > 0 && at+1+size > width:
				out.WriteByte('\n')
				at = 0
			case at > 0:
				out.WriteByte(' ')
				at++
			}
			out.WriteString(w)
			at += size
		}
	}
	return out.String()
}

// helpText is the page of a verb: what it is, examples, then the rest.
const helpText = `{{with .Short}}{{.}}{{end}}

Usage:
  {{if .Runnable}}{{.UseLine}}{{end}}{{if .HasAvailableSubCommands}}
  {{.CommandPath}} VERB{{end}}
{{if .HasExample}}
Examples:
{{.Example}}
{{end}}{{with .Long}}
{{.}}
{{end}}{{if .HasAvailableSubCommands}}
Verbs:{{range .Commands}}{{if or .IsAvailableCommand (eq .Name "help")}}
  {{rpad .Name .NamePadding }} {{.Short}}{{end}}{{end}}
{{end}}{{if .HasAvailableLocalFlags}}
Flags:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}
{{end}}{{if .HasAvailableInheritedFlags}}
Flags of every verb:
{{.InheritedFlags.FlagUsages | trimTrailingWhitespaces}}
{{end}}`
