package main

import (
	"slices"
	"strconv"
	"strings"

	"cantina/api"
	pb "cantina/wire/cantinav1"
)

// naming is one way to read an argument that names something within a domain. Services, jobs,
// tasks and schedules are named alike: NAME, DOMAIN/NAME or DOMAIN.NAME.
type naming struct {
	domain string // "" = any
	name   string
	part   string // an instance or a batch task of it: the index or the node
	// qualified: the argument itself has the domain.
	qualified bool
}

// namings are the ways to read an argument with slashes: the first part is the name or the domain.
// A node may have slashes, and may stand in brackets. domain is that of --domain; "" = any.
func namings(text, domain string) []naming {
	var out []naming
	add := func(n naming) {
		switch {
		case n.name == "" || n.qualified && n.domain == "":
		case n.qualified && domain != "" && n.domain != domain:
		default:
			out = append(out, n)
		}
	}
	if head, node, ok := strings.Cut(text, "["); ok && strings.HasSuffix(node, "]") && strings.Count(head, "/") <= 1 {
		node = strings.TrimSuffix(node, "]")
		if of, name, qualified := strings.Cut(head, "/"); qualified {
			add(naming{of, name, node, true})
		} else {
			add(naming{domain, head, node, false})
		}
	}
	first, rest, more := strings.Cut(text, "/")
	add(naming{domain, first, rest, false})
	if more {
		name, part, _ := strings.Cut(rest, "/")
		add(naming{first, name, part, true})
	}
	return out
}

// dotted are the further ways to read an argument: a dot in its first part separates domain and name, as
// in the ids of tasks. Names may have dots, so these count only where nothing has the whole name.
func dotted(text, domain string) []naming {
	var out []naming
	for i, r := range text {
		if r == '/' || r == '[' {
			break
		}
		if r == '.' {
			out = append(out, slices.DeleteFunc(namings(text[:i]+"/"+text[i+1:], domain),
				func(n naming) bool { return !n.qualified })...)
		}
	}
	return out
}

// registers look up names within domains, by the kind of the named object: get returns an error if
// a domain has no such name, and list returns the domains that have it.
var registers = map[string]struct {
	get  func(c *cli, domain, name string) error
	list func(c *cli, name string, page *pb.Page) (domains []string, where *pb.Listing, err error)
}{
	"service": {
		func(c *cli, domain, name string) error {
			_, err := call(c, calls.GetService, &pb.GetServiceRequest{Domain: domain, Name: name})
			return err
		}, func(c *cli, name string, page *pb.Page) (domains []string, where *pb.Listing, err error) {
			l, err := call(c, calls.ListServices, &pb.ListServicesRequest{Name: name, Page: page})
			for _, x := range l.GetServices() {
				domains = append(domains, x.Domain)
			}
			return domains, l.GetListing(), err
		},
	},
	"job": {
		func(c *cli, domain, name string) error {
			_, err := call(c, calls.GetJob, &pb.GetJobRequest{Domain: domain, Name: name})
			return err
		}, func(c *cli, name string, page *pb.Page) (domains []string, where *pb.Listing, err error) {
			l, err := call(c, calls.ListJobs, &pb.ListJobsRequest{Name: name, Page: page})
			for _, x := range l.GetJobs() {
				domains = append(domains, x.Domain)
			}
			return domains, l.GetListing(), err
		},
	},
	"schedule": {
		func(c *cli, domain, name string) error {
			_, err := call(c, calls.GetSchedule, &pb.GetScheduleRequest{Domain: domain, Name: name})
			return err
		}, func(c *cli, name string, page *pb.Page) (domains []string, where *pb.Listing, err error) {
			l, err := call(c, calls.ListSchedules, &pb.ListSchedulesRequest{Name: name, Page: page})
			for _, x := range l.GetSchedules() {
				domains = append(domains, x.Domain)
			}
			return domains, l.GetListing(), err
		},
	},
}

// domainsOf are the domains in which a service, job or schedule of a name exists, of those that a naming
// allows.
func domainsOf(c *cli, kind string, n naming) (domains []string, err error) {
	ask := registers[kind]
	if n.domain != "" {
		err := ask.get(c, n.domain, n.name)
		if isCode(err, "not_found", "collected") {
			return nil, nil
		}
		return []string{n.domain}, err
	}
	err = pages(func(cursor string) (string, error) {
		more, where, err := ask.list(c, n.name, &pb.Page{Cursor: cursor, Limit: api.MaxPage})
		domains = append(domains, more...)
		return where.GetNext(), err
	})
	return domains, err
}

// findNamed finds services, jobs and schedules, and the parts of services and jobs. explicit: the kind
// stands before the argument. Then DOMAIN/NAME takes precedence over NAME/PART.
func findNamed(c *cli, kind string, ways []naming, explicit bool) ([]subject, error) {
	var found, qualified []subject
	for _, n := range ways {
		index, err := strconv.ParseInt(n.part, 10, 32)
		if n.part != "" && (kind == "schedule" || kind == "service" && (err != nil || index < 0)) {
			continue
		}
		domains, err := domainsOf(c, kind, n)
		if err != nil {
			return nil, err
		}
		for _, d := range domains {
			s := subject{kind: kind, domain: d, name: n.name}
			switch {
			case n.part == "":
			case kind == "service":
				s.kind, s.index = "instance", int32(index)
			default:
				if s.kind, s.node, err = nodeOf(c, s, n.part); err != nil {
					return nil, err
				}
				if s.node == "" {
					continue
				}
			}
			if found = append(found, s); n.qualified {
				qualified = append(qualified, s)
			}
		}
	}
	if explicit && len(qualified) > 0 {
		found = qualified
	}
	slices.SortFunc(found, func(a, b subject) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(found), nil
}

// findWhole finds a resource of one kind for a verb that applies to all of it.
func findWhole(c *cli, kind, text, domain string) (subject, error) {
	s, err := findSubject(c, kind+"/"+strings.TrimPrefix(text, kind+"/"), domain)
	if err == nil && s.kind != kind {
		err = failf(api.ExitUsage, "%q is %s; this verb needs the whole %s: %s/%s", text,
			map[string]string{"instance": "an instance", "node": "a batch task"}[s.kind], kind, s.domain, s.name)
	}
	return s, err
}
