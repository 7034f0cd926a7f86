package api

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"cantina/internal/run"
	"cantina/internal/text"
	"cantina/wire"
	pb "cantina/wire/cantinav1"
)

const (
	// defaultWindow is how long the use of processors is measured.
	defaultWindow = time.Second
	// usageTime bounds one call to a cell.
	usageTime = 5 * time.Second
)

// GetUsage asks the cells twice, a window apart. Nothing is measured without such a call.
func (c cellCalls) GetUsage(ctx context.Context, q *request[pb.GetUsageRequest]) (*response[pb.GetUsageResponse],
	error) {
	b, err := c.now()
	if err != nil {
		return nil, err
	}
	window := defaultWindow
	if q.Msg.Window != nil {
		if window, err = wire.ToDuration(q.Msg.Window); err != nil || window < 100*time.Millisecond ||
			window > 10*time.Second {
			return nil, invalid("window", "must be from 100ms to 10s")
		}
	}
	if s := q.Msg.Sort; s != "" && s != "cpu" && s != "memory" && s != "name" {
		return nil, invalid("sort", "invalid order %q: must be one of cpu, memory, name", text.Shorten(s, 60))
	}
	limit := cmp.Or(int(q.Msg.Limit), DefaultPage)
	if limit < 1 || limit > MaxPage {
		return nil, invalid("limit", "must be from 1 to %d", MaxPage)
	}
	cells := b.Logs.Holders(&pb.LogQuery{})
	if q.Msg.Cell != "" {
		cells = slices.DeleteFunc(cells, func(name string) bool { return name != q.Msg.Cell })
	}
	slices.Sort(cells)
	first, _ := usageOf(ctx, b.Logs, cells)
	if err := run.Pause(ctx, window); err != nil {
		return nil, err
	}
	second, missing := usageOf(ctx, b.Logs, cells)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m := &pb.GetUsageResponse{Missing: missing}
	m.Usage, m.More = sumUsage(cells, first, second, q.Msg, limit)
	return answer(m, nil)
}

// usageOf measures cells; those that do not answer are nil, and named in missing.
func usageOf(ctx context.Context, logs Logs, cells []string) (all []*pb.ReadUsageResponse, missing []string) {
	all = make([]*pb.ReadUsageResponse, len(cells))
	failed := make([]error, len(cells))
	eachCell(cells, func(i int, cell string) {
		ctx, cancel := context.WithTimeout(ctx, usageTime)
		defer cancel()
		if all[i], failed[i] = logs.ReadUsage(ctx, cell); failed[i] != nil {
			all[i] = nil
		}
	})
	for i, err := range failed {
		if err != nil {
			missing = append(missing, ofCell(cells[i], err))
		}
	}
	return all, missing
}

// sumUsage makes the rows of an answer from two measurements of each cell.
func sumUsage(cells []string, first, second []*pb.ReadUsageResponse, q *pb.GetUsageRequest,
	limit int) (rows []*pb.Usage, more int32) {
	var machines, parts []*pb.Usage
	sums := map[string]*pb.Usage{}
	var work []*pb.Usage
	for i, cell := range cells {
		now, before := second[i], first[i]
		if now == nil {
			continue
		}
		machine := machineUsage(cell, before, now)
		machines = append(machines, machine)
		earlier := map[string]*pb.ContainerUsage{}
		for _, c := range before.GetContainers() {
			earlier[c.Id] = c
		}
		for _, c := range now.Containers {
			part := containerUsage(cell, c)
			if part == nil {
				continue
			}
			if e := earlier[c.Id]; e != nil && e.CpuNanos != nil && c.CpuNanos != nil && now.At > before.At {
				part.CpuMilli = rate(*c.CpuNanos-*e.CpuNanos, now.At-before.At)
			}
			addUsage(machine, part)
			if q.Domain != "" && part.Domain != q.Domain {
				continue
			}
			kind := map[string]string{"instance": "service", "node": "job", "task": "task"}[part.Kind]
			key := kind + "/" + part.Domain + "/" + part.Name
			sum := sums[key]
			if sum == nil {
				sum = &pb.Usage{Kind: kind, Domain: part.Domain, Name: part.Name}
				sums[key], work = sum, append(work, sum)
			}
			addUsage(sum, part)
			if kind == "task" {
				sum.Cell = cell
			} else {
				parts = append(parts, part)
			}
		}
	}
	for _, part := range [][]*pb.Usage{work, parts} {
		slices.SortFunc(part, func(a, b *pb.Usage) int { return compareUsage(q.Sort, a, b) })
	}
	rows = machines
	for _, kind := range []string{"service", "job", "task", "instance", "node"} {
		n := 0
		for _, u := range append(slices.Clone(work), parts...) {
			if u.Kind != kind {
				continue
			}
			if n++; n > limit {
				more++
				continue
			}
			rows = append(rows, u)
		}
	}
	return rows, more
}

// rate is the use of processors in thousandths. Time of processes that have ended may be missing.
func rate(used, nanos int64) *int32 {
	n := int32(max(used, 0) * 1000 / nanos)
	return &n
}

func machineUsage(cell string, before, now *pb.ReadUsageResponse) *pb.Usage {
	u := &pb.Usage{Kind: "cell", Name: cell, MachineProcessors: now.Processors, MachineMemoryTotalBytes: now.MemoryTotal}
	if now.MemoryTotal > 0 {
		n := now.MemoryTotal - now.MemoryAvailable
		u.MachineMemoryBytes = &n
	}
	if now.BusyNanos > 0 && before.GetBusyNanos() > 0 && now.At > before.At {
		u.MachineCpuMilli = rate(now.BusyNanos-before.BusyNanos, now.At-before.At)
	}
	return u
}

// containerUsage is a row for a container, without its use of processors; nil if it is no work.
func containerUsage(cell string, c *pb.ContainerUsage) *pb.Usage {
	l := c.Labels
	u := &pb.Usage{Domain: text.Clean(l["domain"]), Cell: cell, Containers: 1, Processes: c.Processes,
		MemoryBytes: c.MemoryBytes}
	switch {
	case l["service"] != "":
		n, _ := strconv.ParseInt(l["index"], 10, 32)
		index := int32(n)
		u.Kind, u.Name, u.Index = "instance", text.Clean(l["service"]), &index
	case l["job"] != "":
		u.Kind, u.Name, u.Node = "node", text.Clean(l["job"]), text.Clean(l["node"])
	case l["task"] != "":
		u.Kind, u.Name = "task", text.Clean(l["task"])
	default:
		return nil
	}
	return u
}

// addUsage adds a container to a sum. A sum is known if one part is.
func addUsage(sum, part *pb.Usage) {
	sum.Containers += part.Containers
	sum.Processes += part.Processes
	sum.CpuMilli, sum.MemoryBytes = added(sum.CpuMilli, part.CpuMilli), added(sum.MemoryBytes, part.MemoryBytes)
}

// added is the sum of two amounts; nil is unknown.
func added[N int32 | int64](a, b *N) *N {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	n := *a + *b
	return &n
}

// compareUsage orders rows: the largest first, then by name.
func compareUsage(order string, a, b *pb.Usage) int {
	n := 0
	switch order {
	case "", "cpu":
		n = cmp.Compare(b.GetCpuMilli(), a.GetCpuMilli())
	case "memory":
		n = cmp.Compare(b.GetMemoryBytes(), a.GetMemoryBytes())
	}
	return cmp.Or(n, cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Name, b.Name), cmp.Compare(a.GetIndex(), b.GetIndex()),
		cmp.Compare(a.Node, b.Node), cmp.Compare(a.Cell, b.Cell))
}
