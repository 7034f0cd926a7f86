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
		"exit-codes": {"Exit codes", exitCodes},
		"subjects":   {"Names of services, tasks, jobs and cells", subjectHelp + "\n"},
		"output":     {"Output formats, colours and times", outputHelp},
		"addresses":  {"How clients find a server", addressHelp},
	}
}

const exitCodes = `EXIT CODES
  0    success, or nothing to do
  1    refused or failed
  2    wrong usage or invalid spec file; nothing was changed
  3    not found, or deleted after its retention time
  4    timeout (--timeout)
  5    no connection to a server, or access denied
  6    lost: the outcome is unknown
  10   plan: there are changes
  126  run, exec, wait: the program is not executable
  127  run, exec, wait: the program was not found
  130  detached by Ctrl-C; the task or job continues. exec: ended by the detach
       keys

  run, exec and wait exit with the program's own code, or 128+n if signal n ended
  it.
  --client-exit-code gives 0, 1 or 6 instead. wait for a job exits 1 if any of
  its batch tasks failed.
`

const outputHelp = `OUTPUT
  Data goes to standard output. Progress, notes, warnings and prompts go to
  standard error. -q prints only ids.

  -o table   one row per item; fits the terminal: columns are cut or left out;
             full width when piped or with --no-trunc
  -o wide    all columns; select with --columns a,b; --no-header omits the header
  -o json    an array of objects, or one object; the same fields as the API
  -o jsonl   one JSON object per line
  -o yaml    the same as YAML
  -o name    only ids
  --template Go template for each item, applied to its JSON:
             --template '{{.name}} {{.running}}'

  CANTINA_PAGER is a pager for data on a terminal, such as "less -R". There is
  none without it.

  Times are relative on a terminal and RFC 3339 with zone elsewhere; select the
  zone with --utc or --tz. Colours appear only on a terminal; override with
  --color=always|never or NO_COLOR.
`

const addressHelp = `ADDRESSES
  A client uses the first of these:
    1. --addr
    2. the context of --context
    3. CANTINA_ADDR (several addresses separated by commas; any may lead)
    4. the context of CANTINA_CONTEXT, or the current one (cantina context use)
    5. the socket of a running cantina dev or server, in
       $XDG_RUNTIME_DIR/cantina or /run/cantina
    6. 127.0.0.1:7480

  An address is host:port or unix:PATH. Mutual TLS needs --tls-cert, --tls-key
  and --tls-ca. A loopback port needs the token of the server's user, read from
  --token-file or CANTINA_TOKEN.
`

func helpVerb(c *cli, root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use: "help [VERB|TOPIC]", Short: "Help about a verb or topic",
		Long:    "help prints the page of a verb or of a topic: " + strings.Join(topicNames(), ", ") + ".",
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
				return failf(api.ExitUsage, "no help for %q; see cantina help and cantina help topics", strings.Join(args, " "))
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

// Columns of the prose of a page: at most widestHelp on a terminal, plainHelp
// elsewhere.
const (
	widestHelp = 110
	plainHelp  = 80
)

// addHelp has pages fit a terminal. Elsewhere a flag stays on one line, for grep.
func addHelp(c *cli, root *cobra.Command) {
	width, prose := 0, plainHelp
	if c.OutTTY {
		width = min(c.Width(), widestHelp)
		prose = width
	}
	root.SetHelpTemplate(strings.ReplaceAll(helpText, "FlagUsages", fmt.Sprintf("FlagUsagesWrapped %d", width)))
	show := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		cmd.Long = fill(cmd.Long, prose)
		// In one piece: the library reports an error of its writer without naming it.
		var page bytes.Buffer
		cmd.SetOut(&page)
		show(cmd, args)
		_, _ = c.Out.Write(page.Bytes()) // the output keeps its error
	})
}

// fill wraps paragraphs, so that no line is longer than width if words permit it; 0 = unchanged.
// Lines that begin with a space are kept.
func fill(text string, width int) string {
	if width == 0 {
		return text
	}
	var out strings.Builder
	at := 0 // column of the line
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

// helpText is the help of a verb: its summary, examples, then the rest.
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
