package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"text/template"
	"time"
	"unicode"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cantina/api"
	"cantina/internal/text"
)

// list prints items in the form that the flags select.
func list[T proto.Message](c *cli, t table[T], items []T) error {
	switch {
	case c.template != "":
		return templated(c, items)
	case c.quiet || c.output == "name":
		for _, x := range items {
			if err := line(c.Out, t.id(x)); err != nil {
				return err
			}
		}
		return nil
	case c.output == "json":
		var b bytes.Buffer
		b.WriteByte('[')
		for i, x := range items {
			if i > 0 {
				b.WriteByte(',')
			}
			b.Write(api.JSON(x))
		}
		b.WriteByte(']')
		return printJSON(c.Out, b.Bytes())
	case c.output == "jsonl":
		for _, x := range items {
			if err := line(c.Out, string(api.JSON(x))); err != nil {
				return err
			}
		}
		return nil
	case c.output == "yaml":
		for i, x := range items {
			if i > 0 {
				if err := line(c.Out, "---"); err != nil {
					return err
				}
			}
			if err := printYAML(c.Out, api.JSON(x)); err != nil {
				return err
			}
		}
		return nil
	}
	cols, err := chosen(c, t)
	if err != nil {
		return err
	}
	return rows(c, cols, items, !c.noHeader)
}

// one prints a single resource: json and yaml give an object, not a list.
func one[T proto.Message](c *cli, t table[T], x T) error {
	switch {
	case c.template != "" || c.quiet:
	case c.output == "json":
		return printJSON(c.Out, api.JSON(x))
	case c.output == "yaml":
		return printYAML(c.Out, api.JSON(x))
	}
	return list(c, t, []T{x})
}

func line(w io.Writer, s string) error {
	_, err := io.WriteString(w, s+"\n")
	return err
}

func printJSON(w io.Writer, text []byte) error {
	var b bytes.Buffer
	if err := json.Indent(&b, text, "", "  "); err != nil {
		return err
	}
	return line(w, b.String())
}

func printYAML(w io.Writer, text []byte) error {
	var n yaml.Node
	if err := yaml.Unmarshal(text, &n); err != nil {
		return err
	}
	block(&n)
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(&n); err != nil {
		return err
	}
	return enc.Close()
}

// block makes flow style, which JSON is, block style; texts that would read as
// something else keep their quotes.
func block(n *yaml.Node) {
	if n.Kind == yaml.MappingNode || n.Kind == yaml.SequenceNode {
		if len(n.Content) > 0 {
			n.Style = 0
		}
	} else if n.ShortTag() == "!!str" {
		n.Style = 0
		n.Tag = "!!str"
	}
	for _, x := range n.Content {
		block(x)
	}
}

func templated[T proto.Message](c *cli, items []T) error {
	t, err := template.New("--template").Option("missingkey=error").Parse(c.template)
	if err != nil {
		return wrongTemplate(c.template, err)
	}
	for _, x := range items {
		var v any
		if err := json.Unmarshal(api.JSON(x), &v); err != nil {
			return err
		}
		var b bytes.Buffer
		if err := t.Execute(&b, v); err != nil {
			return wrongTemplate(c.template, err)
		}
		if err := line(c.Out, b.String()); err != nil {
			return err
		}
	}
	return nil
}

// wrongTemplate describes an error in --template, without the position that the library names.
func wrongTemplate(text string, err error) error {
	says := regexp.MustCompile(`^template: --template:\d+(:\d+)?: (executing "--template" at )?`).ReplaceAllString(
		err.Error(), "")
	return failf(api.ExitUsage, "--template %q: %s", text, says)
}

// chosen are the columns that the flags select.
func chosen[T proto.Message](c *cli, t table[T]) ([]column[T], error) {
	var out []column[T]
	if len(c.columns) == 0 {
		for _, col := range t.columns {
			if !col.wide || c.output == "wide" {
				out = append(out, col)
			}
		}
		return out, nil
	}
	var names []string
	for _, col := range t.columns {
		names = append(names, strings.ToLower(col.name))
	}
	for _, want := range c.columns {
		i := slices.Index(names, strings.ToLower(want))
		if i < 0 {
			hint := text.DidYouMean(strings.ToLower(want), names)
			if hint != "" {
				hint = "; " + hint
			}
			return nil, failf(api.ExitUsage, "--columns: unknown column %q%s; valid columns: %s", want, hint,
				strings.Join(names, ", "))
		}
		out = append(out, t.columns[i])
	}
	return out, nil
}

// paint colours states on a terminal; the word has the same meaning without it.
func (c *cli) paint(v string, header bool) string {
	if !c.colored() || header {
		return v
	}
	colour := map[string]string{
		"RUNNING": "32", "HEALTHY": "32", "done": "32", "succeeded": "32", "CRASHED": "31", "failed": "31", "lost": "31",
		"MUST_DIE":  "31",
		"UNHEALTHY": "33", "UNCLAIMED": "33", "PENDING": "33", "waiting": "33", "CLAIMED": "36", "running": "36",
	}[v]
	if colour == "" {
		return v
	}
	return "\x1b[" + colour + "m" + v + "\x1b[0m"
}

func (c *cli) colored() bool {
	switch {
	case c.color == "always":
		return true
	case c.color == "never", c.Getenv("NO_COLOR") != "", c.Getenv("TERM") == "dumb":
		return false
	}
	return c.OutTTY
}

// printable keeps foreign text from steering the terminal or breaking the table.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		if !unicode.IsPrint(r) {
			return '\uFFFD'
		}
		return r
	}, s)
}

// when prints a time: how long ago on a terminal, RFC 3339 with its zone elsewhere.
func (c *cli) when(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	at := t.AsTime()
	if !c.OutTTY || c.utc || c.tz != "" {
		return at.In(c.location()).Format(time.RFC3339)
	}
	d := c.Now().Sub(at)
	if d < 0 {
		return "in " + short(-d)
	}
	return short(d) + " ago"
}

// location is the zone of times; verbs without --tz have that of this machine.
func (c *cli) location() *time.Location {
	if c.zone == nil {
		return time.Local
	}
	return c.zone
}

// short prints a duration in its largest unit.
func short(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

func number(n int32) string { return fmt.Sprint(n) }

func beingEnded(n int32) string {
	return text.CountAs(n, "running batch task is being ended", "running batch tasks are being ended")
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// stream prints a list page by page, so that a very long one needs no memory.
func stream[T proto.Message](c *cli, t table[T], read func(cursor string) (items []T, next string, err error)) error {
	array := c.output == "json" && c.template == "" && !c.quiet
	first := true
	separator := "["
	err := pages(func(cursor string) (string, error) {
		items, next, err := read(cursor)
		if err != nil {
			return "", err
		}
		if array {
			for _, x := range items {
				if err := line(c.Out, separator+string(api.JSON(x))); err != nil {
					return "", err
				}
				separator = ","
			}
			return next, nil
		}
		if err := list(c, t, items); err != nil {
			return "", err
		}
		if first {
			first, c.noHeader = false, true
		}
		return next, nil
	})
	if err != nil || !array {
		return err
	}
	if separator == "[" {
		return line(c.Out, "[]")
	}
	return line(c.Out, "]")
}
