package executor

import (
	"fmt"
	"os/exec"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"cantina/action"
	"cantina/resource"
)

// The figures of a launch are ratios to a bare os/exec loop in the same run:
//
//	go test -run xxx -bench . -cpu 2 -benchtime 3000x ./executor

// cpu reports the processor time of the cell and of its containers: on a busy machine its ratio is more reliable
// than that of the wall clock.
func cpu(b *testing.B) func() {
	before := cpuTime()
	return func() {
		b.ReportMetric(float64((cpuTime()-before).Microseconds())/float64(b.N), "cpu-us/op")
	}
}

func cpuTime() (sum time.Duration) {
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var ru syscall.Rusage
		if syscall.Getrusage(who, &ru) == nil {
			sum += time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
		}
	}
	return sum
}

func BenchmarkBare(b *testing.B) {
	defer cpu(b)()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := exec.Command("/bin/true").Run(); err != nil {
				b.Error(err)
			}
		}
	})
}

var trueProgram = action.Action{Run: &action.Run{Path: "/bin/true"}}

func BenchmarkProcess(b *testing.B) {
	benchmark(b, Spec{Workload: action.Workload{Action: trueProgram}})
}

func BenchmarkProcessLimits(b *testing.B) {
	benchmark(b, Spec{Workload: action.Workload{Action: trueProgram, MaxPids: 50,
		Resources: resource.Amounts{resource.MemoryMB: 64, resource.CPUMilli: 1000}}})
}

func BenchmarkProcessUser(b *testing.B) {
	benchmark(b, Spec{Workload: action.Workload{Action: trueProgram, User: "65534:65534"}})
}

// benchmark launches, awaits and deletes containers, two at a time.
func benchmark(b *testing.B, s Spec) {
	e := testExecutor(b, nil)
	launchSerially(b, e, s)
}

func launchSerially(b *testing.B, e *Executor, s Spec) {
	var n atomic.Int64
	waiting := newWaiters(b, e)
	b.ResetTimer()
	defer cpu(b)()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			id := fmt.Sprint("c", n.Add(1))
			done := waiting.expect(id)
			if err := e.Launch(Reservation{ID: id}, s); err != nil {
				b.Error(err)
				return
			}
			c := <-done
			if c.Result.Failed {
				b.Errorf("%+v", c.Result)
				return
			}
			if err := e.Delete(id); err != nil {
				b.Error(err)
			}
		}
	})
	b.StopTimer()
}

func BenchmarkNamespaces(b *testing.B) {
	needRoot(b)
	benchmark(b, Spec{Workload: action.Workload{Action: trueProgram, Isolation: action.IsolationNamespaces}})
}

func BenchmarkNamespacesNet(b *testing.B) {
	needRoot(b)
	benchmark(b, Spec{Workload: action.Workload{Action: trueProgram, Isolation: action.IsolationNamespaces, OwnNet: true}})
}

func BenchmarkRootfs(b *testing.B) {
	needRoot(b)
	root := smallRoot(b)
	copyProgram(b, root, "/bin/true")
	benchmark(b, Spec{Workload: action.Workload{Action: trueProgram, Isolation: action.IsolationRootfs, Rootfs: root}})
}

func BenchmarkKeep(b *testing.B) {
	benchmark(b, keep(Spec{Workload: action.Workload{Action: trueProgram}}))
}

func BenchmarkProbe(b *testing.B) {
	e := testExecutor(b, nil)
	for b.Loop() {
		if err := e.Probe(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkBeside launches beside containers that just sit there.
func BenchmarkBeside(b *testing.B) {
	for _, n := range []int{100, 5000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			e := testExecutor(b, nil)
			s := Spec{Workload: action.Workload{Action: action.Action{Run: &action.Run{Path: "sleep", Args: []string{"10000"}}}}}
			s.Workload.Termination.Mode = action.KillNow
			for i := range n {
				if err := e.Launch(Reservation{ID: fmt.Sprint("idle", i)}, s); err != nil {
					b.Fatal(err)
				}
			}
			for i := range n {
				await(b, e, fmt.Sprint("idle", i), runningState)
			}
			launchSerially(b, e, Spec{Workload: action.Workload{Action: trueProgram}})
		})
	}
}
