package robust

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"cantina/api"
	"cantina/event"
	pb "cantina/wire/cantinav1"
)

// TestEventsAndListsAgree: a follower of any kind of event sees each row as a list shows it, field by field, once
// nothing changes any more.
func TestEventsAndListsAgree(t *testing.T) {
	w := newWitness(t)
	c := startCluster(t, patient, 1, 1)
	apply(t, c.addr(), fmt.Sprintf(`services:
  web: {command: [sh, -c, 'exec sleep 1000'], instances: 2, stop_grace: 1s}
  gone: {command: [sh, -c, 'exec sleep 1000'], stop_grace: 1s}
tasks:
  once: {command: [sh, -c, 'while [ ! -e %[1]s/go ]; do sleep 0.05; done']}
  long: {command: [sh, -c, 'exec sleep 1000'], stop_grace: 1s}
jobs:
  batch: {levels: [n], nodes: [{manual: [a, b]}], command: ['true'], priority: 3}
schedules:
  night: {cron: '0 3 * * *', timezone: Europe/Berlin, gap: run, fold: first, task: {command: ['true']}}
`, w.dir))
	must(t, c.addr(), "wait", "web", "gone", "batch", "--timeout", "100s")
	must(t, c.addr(), "rm", "gone", "--yes")
	must(t, c.addr(), "wait", "gone", "--for", "stopped", "--timeout", "100s")
	w.release()
	must(t, c.addr(), "wait", "once", "--timeout", "100s")
	client := c.client()
	lists := map[string]func() []proto.Message{
		"service": func() []proto.Message {
			return rows(t, client, calls.ListServices, &pb.ListServicesRequest{}, (*pb.ListServicesResponse).GetServices)
		},
		"instance": func() []proto.Message {
			return rows(t, client, calls.ListInstances, &pb.ListInstancesRequest{}, (*pb.ListInstancesResponse).GetInstances)
		},
		"task": func() []proto.Message {
			return rows(t, client, calls.ListTasks, &pb.ListTasksRequest{}, (*pb.ListTasksResponse).GetTasks)
		},
		"job": func() []proto.Message {
			return rows(t, client, calls.ListJobs, &pb.ListJobsRequest{}, (*pb.ListJobsResponse).GetJobs)
		},
		"schedule": func() []proto.Message {
			return rows(t, client, calls.ListSchedules, &pb.ListSchedulesRequest{}, (*pb.ListSchedulesResponse).GetSchedules)
		},
		"cell": func() []proto.Message {
			return rows(t, client, calls.ListCells, &pb.ListCellsRequest{}, (*pb.ListCellsResponse).GetCells)
		},
	}
	// A pending change, such as the start of a task or the room of a cell that has just become free, ends soon.
	var wrong []string
	if !eventually(func() bool {
		wrong = compare(lastRows(t, client), lists)
		return len(wrong) == 0
	}) {
		t.Error(strings.Join(wrong, "\n"))
	}
	must(t, c.addr(), "stop", "long")
}

// compare names the differences between the last rows of events and of lists.
func compare(last map[string]map[string]proto.Message, lists map[string]func() []proto.Message) (wrong []string) {
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	for kind, read := range lists {
		got := last[kind]
		for _, want := range read() {
			name := nameOf(want)
			row := got[name]
			delete(got, name)
			if row == nil {
				say("%s %s is listed and in no event", kind, name)
				continue
			}
			if fields := unlike(want, row); len(fields) > 0 {
				say("%s %s: unlike in %v:\n list  %v\n event %v", kind, name, fields, want, row)
			}
		}
		for name := range got {
			say("%s %s is not listed, and no event says that it is gone", kind, name)
		}
	}
	return wrong
}

// rows are all rows of a list.
func rows[Q, R any, M proto.Message](t *testing.T, client *api.Client, call api.Method[Q, R], q *Q,
	items func(*R) []M) []proto.Message {
	t.Helper()
	got, err := api.Call(t.Context(), client, call, q)
	if err != nil {
		t.Fatal(err)
	}
	var out []proto.Message
	for _, m := range items(got) {
		out = append(out, m)
	}
	return out
}

// lastRows are the newest rows that events of the whole term show, by kind and name, as they
// show them now; those that are gone are not among them.
func lastRows(t *testing.T, client *api.Client) map[string]map[string]proto.Message {
	t.Helper()
	now, err := api.Call(t.Context(), client, calls.ListCells, &pb.ListCellsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	end, err := event.ParsePosition(now.Listing.Position)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]map[string]proto.Message{}
	err = client.Events(t.Context(), &pb.StreamEventsRequest{Since: "0"}, func(m *pb.StreamEventsResponse) error {
		if e := m.Event; e != nil && e.Kind != "node" && e.Kind != "note" {
			r := e.ProtoReflect()
			row := r.Get(r.Descriptor().Fields().ByName(protoreflect.Name(e.Kind))).Message().Interface()
			if out[e.Kind] == nil {
				out[e.Kind] = map[string]proto.Message{}
			}
			out[e.Kind][nameOf(row)] = row
			if e.Gone {
				delete(out[e.Kind], nameOf(row))
			}
		}
		if at, err := event.ParsePosition(m.Position); err != nil || at.Compare(end) >= 0 {
			return errors.Join(err, api.Stop())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// nameOf returns the name of a row for people.
func nameOf(m proto.Message) string {
	switch x := m.(type) {
	case *pb.Service:
		return x.Name
	case *pb.Instance:
		return fmt.Sprintf("%s/%d of %s", x.Service, x.Index, x.Process)
	case *pb.Task:
		return x.Id
	case *pb.Job:
		return x.Name
	case *pb.Schedule:
		return x.Name
	case *pb.Cell:
		return x.Name
	}
	return ""
}

// unlike names the fields in which two rows differ, except those that time alone changes.
func unlike(want, got proto.Message) (fields []string) {
	a, b := want.ProtoReflect(), got.ProtoReflect()
	for i := range a.Descriptor().Fields().Len() {
		f := a.Descriptor().Fields().Get(i)
		if f.Name() != "dead_in" && (a.Has(f) != b.Has(f) || !a.Get(f).Equal(b.Get(f))) {
			fields = append(fields, string(f.Name()))
		}
	}
	return fields
}
