package api_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"cantina/api"
	pb "cantina/wire/cantinav1"
)

// used is a container with processor time in milliseconds and memory in bytes; negative = unknown.
func used(id string, cpu, memory int64, labels ...string) *pb.ContainerUsage {
	c := &pb.ContainerUsage{Id: id, Processes: 2, Labels: map[string]string{}}
	for i := 0; i < len(labels); i += 2 {
		c.Labels[labels[i]] = labels[i+1]
	}
	if nanos := cpu * int64(time.Millisecond); cpu >= 0 {
		c.CpuNanos = &nanos
	}
	if memory >= 0 {
		c.MemoryBytes = &memory
	}
	return c
}

// TestGetUsage sums two cells, of which a third does not answer.
func TestGetUsage(t *testing.T) {
	w := newWorld(t)
	measured := func(at time.Duration, busy int64, all ...*pb.ContainerUsage) *pb.ReadUsageResponse {
		return &pb.ReadUsageResponse{At: int64(at), BusyNanos: busy * int64(time.Millisecond), Processors: 4,
			MemoryTotal: 1000, MemoryAvailable: 400, Containers: all}
	}
	web := func(id string, cpu, memory int64, index string) *pb.ContainerUsage {
		return used(id, cpu, memory, "service", "web", "domain", "d", "index", index)
	}
	for _, cell := range []string{"a", "b", "gone"} {
		w.Logs.Write(cell, "x", map[string]string{"service": "web"}, 0, "x\n")
	}
	w.Logs.Cut("gone", errors.New("no route"))
	start := func() {
		w.Logs.SetUsage("a", measured(10*time.Second, 5000, web("1", 1000, 10, "0"), web("2", 500, 20, "1")),
			measured(12*time.Second, 8000, web("1", 2000, 30, "0"), web("2", 400, 40, "1"), web("3", 9000, 1, "2"),
				used("4", -1, -1, "task", "t", "domain", "e"), used("5", 1, 1)))
		w.Logs.SetUsage("b", measured(99*time.Second, 0), measured(100*time.Second, 0,
			used("6", 7, 70, "job", "j", "domain", "d", "node", "n")))
	}
	ask := func(q *pb.GetUsageRequest) *pb.GetUsageResponse {
		t.Helper()
		start()
		q.Window = durationpb.New(100 * time.Millisecond)
		got, err := api.Call(t.Context(), w.client, calls.GetUsage, q)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	text := func(rows []*pb.Usage) string {
		number := func(n any, known bool) string {
			if !known {
				return "-"
			}
			return fmt.Sprint(n)
		}
		var out []string
		for _, x := range rows {
			out = append(out, fmt.Sprintf("%s %s%s%s %s/%s %d %d", x.Kind, x.Name, number(x.GetIndex(), x.Index != nil), x.Node,
				number(x.GetCpuMilli(), x.CpuMilli != nil),
				number(x.GetMemoryBytes(), x.MemoryBytes != nil), x.Containers, x.Processes))
		}
		return strings.Join(out, "\n")
	}
	// Time that went back counts as none; that of a new container, and of one without a counter, is unknown.
	const want = `cell a- 500/71 4 8
cell b- -/70 1 2
service web- 500/71 3 6
job j- -/70 1 2
task t- -/- 1 2
instance web0 500/30 1 2
instance web1 0/40 1 2
instance web2 -/1 1 2
node j-n -/70 1 2`
	got := ask(&pb.GetUsageRequest{})
	if text(got.Usage) != want || len(got.Missing) != 1 || got.Missing[0] != "cell gone: no route" || got.More != 0 {
		t.Errorf("%s\n%v %d", text(got.Usage), got.Missing, got.More)
	}
	if m := got.Usage[0]; m.GetMachineCpuMilli() != 1500 || m.GetMachineMemoryBytes() != 600 || m.MachineProcessors != 4 {
		t.Errorf("machine: %v", m)
	}
	if m := got.Usage[1]; m.MachineCpuMilli != nil {
		t.Errorf("machine without a counter: %v", m)
	}
	if got := ask(&pb.GetUsageRequest{Sort: "memory", Limit: 1, Domain: "d"}); got.More != 2 ||
		!strings.Contains(text(got.Usage), "instance web1 0/40") || strings.Contains(text(got.Usage), "task") {
		t.Errorf("%s\n%d", text(got.Usage), got.More)
	}
	if got := ask(&pb.GetUsageRequest{Cell: "b"}); len(got.Usage) != 3 || len(got.Missing) != 0 {
		t.Errorf("of one cell: %s %v", text(got.Usage), got.Missing)
	}
	for field, q := range map[string]*pb.GetUsageRequest{
		"window": {Window: durationpb.New(time.Minute)}, "sort": {Sort: "size"}, "limit": {Limit: 1001},
	} {
		_, err := api.Call(t.Context(), w.client, calls.GetUsage, q)
		var e *api.Error
		if !errors.As(err, &e) || e.Detail.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}
