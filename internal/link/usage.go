package link

import (
	"context"

	"cantina/executor"
	pb "cantina/wire/cantinav1"
)

// ReadUsage measures the containers of this cell and its machine.
func (l *Local) ReadUsage(ctx context.Context, _ *pb.ReadUsageRequest) (*pb.ReadUsageResponse, error) {
	uses, at := l.Executor.Uses()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m := &pb.ReadUsageResponse{At: int64(at)}
	for _, u := range uses {
		c := &pb.ContainerUsage{Id: u.ID, Labels: u.Labels, Processes: int32(u.Processes)}
		if u.CPUKnown {
			n := int64(u.CPU)
			c.CpuNanos = &n
		}
		if u.MemoryKnown {
			c.MemoryBytes = &u.Memory
		}
		m.Containers = append(m.Containers, c)
	}
	machine := executor.MachineUse()
	m.BusyNanos, m.Processors = int64(machine.Busy), int32(machine.Processors)
	m.MemoryTotal, m.MemoryAvailable = machine.MemoryTotal, machine.MemoryAvailable
	return m, nil
}
