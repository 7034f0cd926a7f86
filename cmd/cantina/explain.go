package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cantina/resource"
	pb "cantina/wire/cantinav1"
)

func explainVerb(c *cli) *cobra.Command {
	var domain string
	cmd := &cobra.Command{
		Use:   "explain SUBJECT",
		Short: "Show why a resource is in its state",
		Long: "explain prints the reason first: the resources needed and available, their holders, and the " +
			"smallest change that would help. Then it prints the newest events and the last lines of " +
			"output.\n" +
			"\n" + subjectHelp,
		Example: "  cantina explain web/0\n" +
			"  cantina explain count/net/http -o json | jq '.reasons'",
		Args: exactly(1, "SUBJECT"),
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := findSubject(c, args[0], domain)
			if err != nil {
				return err
			}
			got, err := call(c, calls.Explain, &pb.ExplainRequest{Subject: s.wire()})
			if isCode(err, "not_found") && s.kind == "instance" {
				err = cmp.Or(knownInstance(c.ctx, c, s), err)
			}
			if err != nil {
				return err
			}
			if c.output != "table" && c.output != "wide" || c.template != "" || c.quiet {
				return one(c, table[*pb.ExplainResponse]{id: func(*pb.ExplainResponse) string { return s.String() }}, got)
			}
			return printExplanation(c, s, got)
		},
	}
	domainFlag(cmd, &domain)
	c.waiting(cmd)
	return c.reading(cmd)
}

// printExplanation prints it as people read it.
func printExplanation(c *cli, s subject, x *pb.ExplainResponse) error {
	var b strings.Builder
	if unconfirmed(x.Reasons) != nil {
		fmt.Fprintf(&b, "%s was %s at its last report, and should be %s\n", s, printable(x.State), printable(x.Wanted))
	} else if x.Fine {
		fmt.Fprintf(&b, "%s is %s, as wanted\n", s, printable(x.State))
	} else {
		fmt.Fprintf(&b, "%s is %s and should be %s\n", s, printable(x.State), printable(x.Wanted))
	}
	for _, r := range x.Reasons {
		fmt.Fprintf(&b, "  because %s\n", printable(r.Text))
		if r.Resource != "" && !saysAll(r) {
			fmt.Fprintf(&b, "    %s needed, %s there%s\n", printable(resource.Words(r.Resource, int(r.Need))),
				resource.Text(r.Resource, int(r.Have)), at(r))
		}
		if r.Longest != nil {
			fmt.Fprintf(&b, "    for %s at most\n", r.Longest.AsDuration().Round(time.Second))
		}
		if r.Change != "" {
			fmt.Fprintf(&b, "    would help: %s\n", printable(r.Change))
		}
	}
	if len(x.Events) > 0 {
		b.WriteString("events\n")
		last := map[string]string{} // of some changes no more is shown than of the one before
		for _, e := range x.Events {
			text, of := eventOf(e), e.Kind+" "+e.Subject
			if e.Instance != nil {
				of += indexOf(e.Instance) + whose(e.Instance)
			}
			if last[of] == text {
				continue
			}
			last[of] = text
			fmt.Fprintf(&b, "  %-25s %s\n", c.when(e.Time), printable(text))
		}
	}
	if len(x.Events) == 0 && x.EventsSince != nil {
		fmt.Fprintf(&b, "no events since %s; only the newest of this leader's term are kept\n",
			x.EventsSince.AsTime().In(c.location()).Format(time.RFC3339))
	}
	if len(x.Lines) > 0 {
		b.WriteString("last output\n")
		for _, l := range x.Lines {
			switch {
			case l.Gap != nil:
				at := time.Time{}
				if l.Gap.At != nil {
					at = l.Gap.At.AsTime()
				}
				fmt.Fprintf(&b, "  %s\n", gapText(l.Source, l.Gap.Reason, l.Gap.Bytes, at))
			default:
				fmt.Fprintf(&b, "  %s\n", printable(l.Text))
			}
		}
	}
	_, err := c.Out.Write([]byte(b.String()))
	return err
}

// unconfirmed is the reason for which a state is not confirmed; nil = it is.
func unconfirmed(rs []*pb.Reason) *pb.Reason {
	for _, r := range rs {
		if r.Code == "cell_unconfirmed" {
			return r
		}
	}
	return nil
}

// saysAll reports whether the text of a reason includes the missing resource and its holder.
func saysAll(r *pb.Reason) bool {
	return strings.Contains(r.Text, resource.Key(r.Resource)) && strings.Contains(r.Text, r.Holder)
}

// eventOf describes an event without repeating its subject.
func eventOf(e *pb.Event) string {
	switch {
	case e.Gone && e.Instance != nil:
		return e.Subject + whose(e.Instance) + " is gone"
	case e.Gone:
		return e.Subject + " is gone"
	case e.Node != nil && e.Text == "":
		return "node " + e.Node.Node + " is " + eventText(e)
	case e.Job != nil && e.Text == "":
		return "job " + eventText(e)
	}
	return eventText(e)
}

func at(r *pb.Reason) string {
	text := ""
	if r.Level != "" {
		text = " on level " + printable(r.Level)
	}
	if r.Holder != "" {
		text += ", held by " + printable(r.Holder)
	}
	return text
}
