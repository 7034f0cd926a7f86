package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cantina/api"
	"cantina/lrp"
	pb "cantina/wire/cantinav1"
)

func instanceTable(c *cli) table[*pb.Instance] {
	return table[*pb.Instance]{
		id: func(x *pb.Instance) string { return fmt.Sprintf("%s/%s/%d", x.Domain, x.Service, x.Index) },
		columns: []column[*pb.Instance]{
			{name: "DOMAIN", whole: true, text: func(x *pb.Instance) string { return x.Domain }},
			{name: "SERVICE", whole: true,
				text: func(x *pb.Instance) string { return fmt.Sprintf("%s/%d", x.Service, x.Index) }},
			{name: "STATE", text: instanceState},
			{name: "ROUTABLE", text: func(x *pb.Instance) string { return yesNo(x.Routable) }},
			{name: "CELL", spare: 3, text: func(x *pb.Instance) string { return x.Cell }},
			{name: "ADDRESS", whole: true, text: addressOf},
			{name: "SINCE", spare: 2, text: func(x *pb.Instance) string { return c.when(x.Since) }},
			{name: "CRASHES", spare: 1, text: func(x *pb.Instance) string { return number(x.CrashCount) }},
			{name: "NOTE", text: func(x *pb.Instance) string { return instanceNote(c, x) }},
			{name: "PRESENCE", wide: true, text: func(x *pb.Instance) string { return x.Presence }},
			{name: "VERSION", wide: true, text: func(x *pb.Instance) string { return number(x.Version) }},
			{name: "ZONE", wide: true, text: func(x *pb.Instance) string { return x.Zone }},
			{name: "INSTANCE", whole: true, wide: true, text: func(x *pb.Instance) string { return x.Instance }},
			{name: "PROCESS", wide: true, text: func(x *pb.Instance) string { return x.Process }},
		},
	}
}

func addressOf(x *pb.Instance) string {
	var out []string
	for _, p := range x.Ports {
		out = append(out, fmt.Sprintf("%s:%d", x.Address, p.Port))
	}
	if len(out) == 0 {
		return x.Address
	}
	return strings.Join(out, ",")
}

// instanceState is the state of an instance, or that it is being stopped.
func instanceState(x *pb.Instance) string {
	if x.Stopping {
		return "STOPPING"
	}
	return x.State
}

// stoppingText is the remaining time of an instance that is being stopped.
func stoppingText(c *cli, x *pb.Instance) string {
	if x.StopBy == nil {
		return "is being stopped"
	}
	return "killed within " + max(x.StopBy.AsTime().Sub(c.Now()), 0).Round(time.Second).String()
}

func instanceNote(c *cli, x *pb.Instance) string {
	switch {
	case x.Orphan:
		return "orphan; kept until its domain is applied again"
	case x.Quarantined:
		return "row cannot be read; see cantina store quarantine show"
	case x.UnconfirmedReason != "":
		return x.UnconfirmedReason
	case x.Condition != "":
		return x.Condition
	case x.Stopping:
		return stoppingText(c, x)
	case x.PlacementError != "":
		return x.PlacementError
	case x.State == "CRASHED" || x.CrashReason != "":
		return x.CrashReason
	case x.Presence != "ORDINARY":
		return strings.ToLower(x.Presence)
	}
	return ""
}

// labelledServices are the services that -l selects, for following changes of their instances; nil without -l.
func labelledServices(c *cli, domain string, sel *selector, watch bool) (map[string]bool, error) {
	if !watch || sel.text == "" {
		return nil, nil
	}
	all, err := selected(c, "service", domain, sel.text, false)
	out := map[string]bool{}
	for _, s := range all {
		out[s.domain+"/"+s.name] = true
	}
	return out, err
}

func psVerb(c *cli) *cobra.Command {
	q := &pb.ListInstancesRequest{}
	var watch bool
	var index *int32
	var sel selector
	wanted := func(x *pb.Instance) bool { return index == nil || x.Index == *index }
	cmd := &cobra.Command{
		Use:   "ps [SERVICE[/INDEX]]",
		Short: "List instances of services",
		Long: "ps lists one row per instance index (the one serving traffic); --all lists every row. -w " +
			"follows with one row per change.",
		Example: "  cantina ps\n" +
			"  cantina ps web -o wide\n" +
			"  cantina ps -l app=shop\n" +
			"  cantina ps --state CRASHED -o json | jq -r '.[].crash_reason'",
		Args: atMost(1, "SERVICE[/INDEX]"),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				s, err := findSubject(c, "service/"+strings.TrimPrefix(args[0], "service/"), q.Domain)
				if err != nil {
					return err
				}
				if q.Domain, q.Service = s.domain, s.name; s.kind == "instance" {
					if err := knownInstance(c.ctx, c, s); err != nil {
						return err
					}
					index = &s.index
				}
			}
			q.Selector = sel.text
			labelled, err := labelledServices(c, q.Domain, &sel, watch)
			if err != nil {
				return err
			}
			changes := &pb.StreamEventsRequest{Kind: []string{"instance"}, All: q.All}
			if labelled != nil {
				changes.Kind = append(changes.Kind, "service")
			}
			return listing(c, instanceTable(c), watch, changes,
				func(cursor string) ([]*pb.Instance, *pb.Listing, error) {
					q.Page = &pb.Page{Cursor: cursor, Limit: api.MaxPage}
					l, err := call(c, calls.ListInstances, q)
					return slices.DeleteFunc(l.GetInstances(), func(x *pb.Instance) bool { return !wanted(x) }), l.GetListing(), err
				}, func(e *pb.Event) (*pb.Instance, bool) {
					if s := e.Service; s != nil && labelled != nil {
						labelled[s.Domain+"/"+s.Name] = sel.parts.Selects(s.Labels)
					}
					x := e.Instance
					return x, x != nil &&
						wanted(x) && (labelled == nil || labelled[x.Domain+"/"+x.Service]) && (q.Domain == "" || x.Domain == q.Domain) &&
						(q.Service == "" || x.Service == q.Service) && (q.Cell == "" || x.Cell == q.Cell)
				})
		},
	}
	cmd.Flags().StringVar(&q.Domain, "domain", "", "list only this domain")
	cmd.Flags().StringVar(&q.Cell, "cell", "", "list only instances on this cell")
	sel.add(cmd, "list only instances of services")
	choicesVar(cmd.Flags(), &q.State, "state", wordsOf(lrp.Unclaimed, lrp.Crashed),
		"UNCLAIMED, CLAIMED, RUNNING or CRASHED")
	cmd.Flags().BoolVar(&q.All, "all", false, "list every row, also replaced and suspect ones")
	cmd.Flags().BoolVar(&q.Orphans, "orphans", false,
		"list only orphans: instances without a service, kept until their domain is applied again")
	resumeFlag(c, cmd, &watch)
	return c.reading(cmd)
}

func serviceTable(c *cli) table[*pb.Service] {
	return table[*pb.Service]{
		id: func(x *pb.Service) string { return x.Domain + "/" + x.Name },
		columns: []column[*pb.Service]{
			{name: "DOMAIN", whole: true, text: func(x *pb.Service) string { return x.Domain }},
			{name: "SERVICE", whole: true, text: func(x *pb.Service) string { return x.Name }},
			{name: "WANTED", text: func(x *pb.Service) string { return number(x.Instances) }},
			{name: "RUNNING", text: func(x *pb.Service) string { return number(x.Running) }},
			{name: "ROUTABLE", text: func(x *pb.Service) string { return number(x.Routable) }},
			{name: "CRASHED", text: func(x *pb.Service) string { return number(x.Crashed) }},
			{name: "PHASE", text: servicePhase},
			{name: "VERSION", spare: 2, text: func(x *pb.Service) string { return number(x.Version) }},
			{name: "APPLIED", spare: 1, text: func(x *pb.Service) string { return c.when(x.Applied) }},
			{name: "NOTE", text: serviceNote},
			{name: "EXCLUSIVE", wide: true, text: func(x *pb.Service) string { return yesNo(x.Exclusive) }},
			{name: "REVISION", wide: true, text: func(x *pb.Service) string { return fmt.Sprint(x.Revision) }},
			labelsColumn[*pb.Service](),
		},
	}
}

func servicePhase(x *pb.Service) string {
	phase := x.Phase
	switch {
	case x.Phase == lrp.RollingOut.String() || x.Phase == lrp.RollingBack.String():
		phase = fmt.Sprintf("%s, %d healthy", x.Phase, x.Healthy)
	case x.Removed:
		phase = "removed"
	}
	if x.Stopping > 0 {
		phase += fmt.Sprintf(", %d stopping", x.Stopping)
	}
	return phase
}

func serviceNote(x *pb.Service) string {
	if x.Unconfirmed > 0 {
		return fmt.Sprintf("%d not confirmed: cantina explain service/%s/%s", x.Unconfirmed, x.Domain, x.Name)
	}
	return x.Failure
}

func serviceVerb(c *cli) *cobra.Command {
	var domain string
	var watch bool
	var sel selector
	ls := &cobra.Command{
		Use: "ls", Short: "List services", Example: "  cantina service ls\n  cantina service ls -l app=shop -o wide",
		Args: atMost(0, "none"),
		RunE: func(*cobra.Command, []string) error {
			return listing(c, serviceTable(c), watch, eventsOf("service"),
				func(cursor string) ([]*pb.Service, *pb.Listing, error) {
					l, err := call(c, calls.ListServices, &pb.ListServicesRequest{Domain: domain, Selector: sel.text,
						Page: &pb.Page{Cursor: cursor, Limit: api.MaxPage}})
					return l.GetServices(), l.GetListing(), err
				}, func(e *pb.Event) (*pb.Service, bool) {
					return e.Service, e.Service != nil && (domain == "" || e.Domain == domain) &&
						sel.parts.Selects(e.Service.Labels)
				})
		},
	}
	domainFlag(ls, &domain)
	sel.add(ls, "list only services")
	resumeFlag(c, ls, &watch)
	get := &cobra.Command{
		Use: "get SERVICE", Short: "Show a service with its versions", Example: "  cantina service get web -o yaml",
		Args: exactly(1, "SERVICE"),
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := findWhole(c, "service", args[0], domain)
			if err != nil {
				return err
			}
			got, err := call(c, calls.GetService, &pb.GetServiceRequest{Domain: s.domain, Name: s.name})
			if err != nil {
				return err
			}
			return one(c, serviceTable(c), got.Service)
		},
	}
	domainFlag(get, &domain)
	return group("service", "Manage services", c.reading(ls), c.reading(get), scaleVerb(c))
}

func scaleVerb(c *cli) *cobra.Command {
	var domain string
	var check int64
	cmd := &cobra.Command{
		Use: "scale SERVICE INSTANCES", Short: "Set the number of instances of a service",
		Long: "scale sets how many instances a service has. Their indices are 0 to INSTANCES-1, so scaling down stops " +
			"those with the highest indices, also if a lower one has crashed.",
		Example: "  cantina service scale web 5",
		Args:    exactly(2, "SERVICE and INSTANCES"),
		RunE: func(_ *cobra.Command, args []string) error {
			var n int32
			if _, err := fmt.Sscanf(args[1], "%d", &n); err != nil || n < 0 || fmt.Sprint(n) != args[1] {
				return failf(api.ExitUsage, "INSTANCES must be a whole number, not %q", args[1])
			}
			s, err := findWhole(c, "service", args[0], domain)
			if err != nil {
				return err
			}
			got, err := call(c, calls.ScaleService,
				&pb.ScaleServiceRequest{Domain: s.domain, Name: s.name, Instances: n, Write: &pb.Write{IfMatch: check}})
			if err != nil {
				return err
			}
			c.notef("%s: scaled to %d\n", s, n)
			return answer(c, serviceTable(c), got.Service)
		},
	}
	domainFlag(cmd, &domain)
	numberVar(cmd.Flags(), &check, "check-revision", "", 0, 1, unbounded,
		"fail unless the service is still at this revision")
	c.waiting(cmd)
	return c.writing(cmd)
}
