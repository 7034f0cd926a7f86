// Command services measures how long real services of one instance take from apply
// to RUNNING on one machine, with and without limits of memory and processor. It is no
// test: it fails only when something cannot be measured.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"cantina/api"
	"cantina/bench/dev"
	"cantina/bench/gauge"
	pb "cantina/wire/cantinav1"
	"cantina/wire/cantinav1/cantinav1connect"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	program := flag.String("cantina", "bin/cantina", "the program to measure")
	n := flag.Int("n", 500, "services")
	rounds := flag.Int("rounds", 3, "rounds, each on a fresh cantina dev; the medians count")
	flag.Parse()
	if err := bench(ctx, *program, *n, *rounds); err != nil {
		fmt.Fprintln(os.Stderr, "services:", err)
		os.Exit(1)
	}
}

func bench(ctx context.Context, program string, n, rounds int) error {
	forms := []struct{ name, limits string }{{"without limits", ""}, {"memory limit", "memory: 8Mi"},
		{"memory and cpu limit", "memory: 8Mi, cpu: 3m"}}
	took := make([][]float64, len(forms))
	for range rounds {
		for i, f := range forms {
			d, err := round(ctx, program, n, f.limits)
			if err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
			took[i] = append(took[i], d.Seconds())
		}
	}
	floor := gauge.Median(took[0])
	for i, f := range forms {
		m := gauge.Median(took[i])
		fmt.Printf("%d services of /bin/sleep, apply to all RUNNING, %-21s %6.2f s, %.2f of the time without limits, "+
			"load %s\n",
			n, f.name+":", m, m/floor, gauge.Load())
	}
	return nil
}

func round(ctx context.Context, program string, n int, limits string) (took time.Duration, err error) {
	d, err := dev.Start(ctx, program)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, d.Stop()) }()
	var file strings.Builder
	file.WriteString("domain: d\nservices:\n")
	for i := range n {
		fmt.Fprintf(&file, "  s%d: {command: [/bin/sleep, '1000'], %s}\n", i, limits)
	}
	running := map[string]bool{}
	var begin time.Time
	err = d.Client.Events(ctx, &pb.StreamEventsRequest{Kind: []string{"instance"}, Since: "tail"},
		func(m *pb.StreamEventsResponse) error {
			if begin.IsZero() {
				begin = time.Now()
				q := &pb.ApplyRequest{Files: []*pb.SpecFile{{Name: "bench", Content: []byte(file.String())}}}
				if _, err := api.Call(ctx, d.Client, cantinav1connect.CantinaServiceClient.Apply, q); err != nil {
					return err
				}
			}
			if m.Gap != nil {
				return fmt.Errorf("the event stream has a gap from %s to %s", m.Gap.After, m.Gap.Before)
			}
			if i := m.GetEvent().GetInstance(); i.GetState() == "RUNNING" {
				running[i.GetService()] = true
			}
			if len(running) == n {
				took = time.Since(begin)
				return api.Stop()
			}
			return nil
		})
	return took, err
}
