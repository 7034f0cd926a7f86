package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"cantina/api"
	"cantina/executor/doctor"
	"cantina/internal/bundle"
	pb "cantina/wire/cantinav1"
)

func debugVerb(c *cli) *cobra.Command {
	return group("debug", "Collect data about a fault", bundleVerb(c))
}

// bundleFlags are the sources of a bundle beside the API.
type bundleFlags struct {
	file     string
	monitors []string
	logs     []string
	data     string
	profile  time.Duration
	doctor   bool
}

func bundleVerb(c *cli) *cobra.Command {
	var f bundleFlags
	cmd := &cobra.Command{
		Use: "bundle", Short: "Write an archive for a report of a fault",
		Args: atMost(0, "none"),
		Long: "bundle writes a tar.gz with status, resources, the reasons for all that is not as wanted, recent events and " +
			"health. It adds metrics, profiles, logs, the findings of doctor, and sizes of files. It works while servers are " +
			"down: errors.txt in the archive names each part that is missing.\n" +
			"\n" +
			"The archive has no values of variables, arguments of programs, annotations, results or output of work. Tokens, " +
			"keys, and credentials and queries of URLs are removed. Names, paths and addresses stay: read it before you pass " +
			"it on.",
		Example: "  cantina debug bundle\n" +
			"  cantina debug bundle --metrics 127.0.0.1:7490 --log /var/log/cantina.log --output fault.tar.gz",
		RunE: func(*cobra.Command, []string) error { return writeBundle(c, &f) },
	}
	p := cmd.Flags()
	p.StringVar(&f.file, "output", "", "file to write (default: cantina-debug-TIME.tar.gz); an existing file is kept")
	p.StringSliceVar(&f.monitors, "metrics", nil, "addresses of processes with --metrics: read metrics and profiles")
	p.StringSliceVar(&f.logs, "log", nil,
		"log files of processes: add the end of each (default: the journal of units cantina*)")
	p.StringVar(&f.data, "data", "", "data directory: list sizes of its files (default: the default directories)")
	durationVar(p, &f.profile, "profile", 2*time.Second, "duration of the profile of the processor; 0 = none")
	p.BoolVar(&f.doctor, "doctor", true, "run doctor on this machine")
	return cmd
}

// writeBundle writes the archive to a file that only this user can read.
func writeBundle(c *cli, f *bundleFlags) error {
	name := cmp.Or(f.file, "cantina-debug-"+c.Now().UTC().Format("20060102T150405Z")+".tar.gz")
	out, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return failf(api.ExitUsage, "--output: %v", err)
	}
	c.impatient = true
	client, err := c.client()
	if err != nil {
		return errors.Join(err, out.Close(), os.Remove(name))
	}
	token, _ := c.clientToken() // without one there is none to remove
	b := &bundler{c: c, f: f, client: client, w: bundle.New(out, c.Now(), token.Reveal())}
	b.collect()
	if err := errors.Join(b.w.Close(), out.Close()); err != nil {
		return errors.Join(failf(api.ExitFailed, "%s: %v", name, err), os.Remove(name))
	}
	if failed := b.w.Failed(); failed != "" {
		c.notef("incomplete:\n%s", failed)
	}
	fmt.Fprintln(c.Out, name)
	return c.ctx.Err()
}

// bundler collects the parts of a bundle.
type bundler struct {
	c      *cli
	f      *bundleFlags
	client *api.Client
	w      *bundle.Writer
}

func (b *bundler) collect() {
	b.add("version.txt", func(context.Context) ([]byte, error) {
		return fmt.Appendf(nil, "client %s\n%s %s/%s\n%d processors\n", version, runtime.Version(), runtime.GOOS,
			runtime.GOARCH, runtime.NumCPU()), nil
	})
	for _, a := range b.addresses(b.resources()) {
		for _, path := range []string{"healthz", "readyz"} {
			b.get("servers/"+fileOf(a)+"/"+path+".txt", a, "/"+path)
		}
	}
	for _, a := range b.f.monitors {
		b.get("processes/"+fileOf(a)+"/metrics.txt", a, "/metrics")
		b.get("processes/"+fileOf(a)+"/goroutines.txt", a, "/debug/pprof/goroutine?debug=2")
		b.get("processes/"+fileOf(a)+"/heap.pprof", a, "/debug/pprof/heap")
		if s := int(b.f.profile.Seconds()); s > 0 {
			b.get("processes/"+fileOf(a)+"/cpu.pprof", a, fmt.Sprintf("/debug/pprof/profile?seconds=%d", s))
		}
	}
	if len(b.f.monitors) == 0 {
		b.w.Missing("processes", "no --metrics address was given: metrics and profiles are left out")
	}
	b.logs()
	b.machine()
}

func (b *bundler) add(name string, read func(context.Context) ([]byte, error)) {
	b.w.Add(b.c.ctx, name, read)
}

func (b *bundler) get(name, address, path string) {
	b.add(name, func(ctx context.Context) ([]byte, error) { return b.client.Get(ctx, address, path, bundle.MaxPart+1) })
}

// fileOf is an address as one part of a path.
func fileOf(address string) string { return strings.ReplaceAll(address, "/", "_") }

// addresses are those of all servers that are known.
func (b *bundler) addresses(members []*pb.StoreMember) []string {
	out := slices.Clone(b.c.addresses())
	for _, m := range members {
		for _, a := range m.Addresses {
			if !slices.Contains(out, a) {
				out = append(out, a)
			}
		}
	}
	return out
}

// part adds the answer to one call, without secrets; it returns the answer.
func part[Q, A any, M interface {
	*A
	proto.Message
}](b *bundler, name string, method api.Method[Q, A], q *Q) *A {
	var got *A
	b.add(name, func(ctx context.Context) ([]byte, error) {
		var err error
		if got, err = api.CallFor(ctx, b.client, 0, method, q); err != nil {
			return nil, err
		}
		return asJSON(bundle.Scrub(M(got)))
	})
	return got
}

func asJSON(m proto.Message) ([]byte, error) {
	return protojson.MarshalOptions{Multiline: true}.Marshal(m)
}

// mostExplained limits the explanations of a bundle, and the definitions of each kind.
const mostExplained = 50

// resources adds the first page of each kind, and the explanations of all that is not as wanted. It returns the members
// of the store.
func (b *bundler) resources() []*pb.StoreMember {
	page := &pb.Page{Limit: api.MaxPage}
	part(b, "status.json", calls.GetStatus, &pb.GetStatusRequest{})
	members := part(b, "members.json", calls.ListMembers, &pb.ListMembersRequest{})
	cells := part(b, "cells.json", calls.ListCells, &pb.ListCellsRequest{Page: page})
	services := part(b, "services.json", calls.ListServices, &pb.ListServicesRequest{Page: page})
	instances := part(b, "instances.json", calls.ListInstances, &pb.ListInstancesRequest{Page: page})
	tasks := part(b, "tasks.json", calls.ListTasks, &pb.ListTasksRequest{Page: page})
	jobs := part(b, "jobs.json", calls.ListJobs, &pb.ListJobsRequest{Page: page})
	part(b, "schedules.json", calls.ListSchedules, &pb.ListSchedulesRequest{Page: page})
	b.add("events.json", b.events)
	for _, x := range services.GetServices()[:min(len(services.GetServices()), mostExplained)] {
		part(b, "services/"+x.Domain+"/"+x.Name+".json", calls.GetService,
			&pb.GetServiceRequest{Domain: x.Domain, Name: x.Name})
	}
	for _, j := range jobs.GetJobs()[:min(len(jobs.GetJobs()), mostExplained)] {
		part(b, "jobs/"+j.Domain+"/"+j.Name+".json", calls.GetJob, &pb.GetJobRequest{Domain: j.Domain, Name: j.Name})
	}
	var ask []*pb.Subject
	for _, x := range cells.GetCells() {
		if x.Session != "HEALTHY" || x.Unavailable != "" {
			ask = append(ask, &pb.Subject{Kind: "cell", Name: x.Name})
		}
	}
	for _, x := range services.GetServices() {
		if x.Running < x.Instances {
			ask = append(ask, &pb.Subject{Kind: "service", Domain: x.Domain, Name: x.Name})
		}
	}
	for _, x := range instances.GetInstances() {
		if x.State != "RUNNING" {
			ask = append(ask, &pb.Subject{Kind: "instance", Domain: x.Domain, Name: x.Service, Index: x.Index})
		}
	}
	for _, x := range tasks.GetTasks() {
		if x.State == "PENDING" {
			ask = append(ask, &pb.Subject{Kind: "task", Domain: x.Domain, Name: x.Id})
		}
	}
	for _, x := range jobs.GetJobs() {
		if x.Reason != "" {
			ask = append(ask, &pb.Subject{Kind: "job", Domain: x.Domain, Name: x.Name})
		}
	}
	if len(ask) > mostExplained {
		b.w.Missing("explain", fmt.Sprintf("%d of %d explanations are here", mostExplained, len(ask)))
		ask = ask[:mostExplained]
	}
	for _, s := range ask {
		name := fmt.Sprintf("explain/%s/%s/%s-%d.json", s.Kind, cmp.Or(s.Domain, "-"), s.Name, s.Index)
		part(b, name, calls.Explain, &pb.ExplainRequest{Subject: s})
	}
	return members.GetMembers()
}

// mostEvents is how many of the newest events a bundle has.
const mostEvents = 2000

// events reads the events that the leader has now.
func (b *bundler) events(ctx context.Context) ([]byte, error) {
	l, err := api.CallFor(ctx, b.client, 0, calls.ListCells, &pb.ListCellsRequest{Page: &pb.Page{Limit: 1}})
	if err != nil {
		return nil, err
	}
	newest := &tail{last: mostEvents}
	err = b.client.Events(ctx, &pb.StreamEventsRequest{Since: "0", All: true}, func(m *pb.StreamEventsResponse) error {
		if m.Event != nil {
			newest.add(m.Event)
		}
		if reached(m, l.Listing.Position) {
			return api.Stop()
		}
		return nil
	})
	var out bytes.Buffer
	for _, e := range newest.kept {
		line, jerr := protojson.Marshal(bundle.Scrub(e))
		if jerr != nil {
			return nil, jerr
		}
		out.Write(append(line, '\n'))
	}
	return out.Bytes(), err
}

// journalLines is how many lines of the journal a bundle has.
const journalLines = "5000"

// logs adds the ends of the given files, or the journal of the units.
func (b *bundler) logs() {
	for _, name := range b.f.logs {
		b.add("logs/"+filepath.Base(name), func(context.Context) ([]byte, error) { return endOf(name, bundle.MaxPart) })
	}
	if len(b.f.logs) > 0 {
		return
	}
	b.add("logs/journal.txt", func(ctx context.Context) ([]byte, error) {
		out, err := exec.CommandContext(ctx, "journalctl", "--unit", "cantina*", "--lines", journalLines, "--no-pager",
			"--output", "short-iso").Output()
		if err != nil {
			return out, fmt.Errorf("journalctl: %w; give log files with --log", err)
		}
		return out, nil
	})
}

// endOf reads the end of a file.
func endOf(name string, most int64) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file", name)
	}
	return io.ReadAll(io.NewSectionReader(file, max(0, info.Size()-most), most))
}

// machine adds the findings of doctor, and the sizes of data directories.
func (b *bundler) machine() {
	dirs := []string{b.f.data}
	if b.f.data == "" {
		dirs = []string{b.c.dataDir("server"), b.c.dataDir("cell"), b.c.dataDir("dev")}
	}
	b.add("sizes.txt", func(ctx context.Context) ([]byte, error) { return sizes(ctx, dirs) })
	if !b.f.doctor {
		b.w.Missing("doctor.txt", "left out by --doctor=false")
		return
	}
	b.add("doctor.txt", func(ctx context.Context) ([]byte, error) {
		r, err := doctor.Examine(ctx, doctor.Options{Dir: existingData(b.c), Reaper: b.c.Reaper})
		if err != nil {
			return nil, err
		}
		var out []byte
		for _, x := range r.Findings {
			out = fmt.Appendf(out, "%s\t%s\t%s\n", x.Level, x.Name, x.Detail)
		}
		return out, nil
	})
}

// mostSizes limits the list of sizes.
const mostSizes = 10_000

// sizes lists the files below the directories that exist, with their sizes.
func sizes(ctx context.Context, dirs []string) ([]byte, error) {
	var out []byte
	n := 0
	for _, dir := range dirs {
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if cerr := ctx.Err(); cerr != nil {
				return cerr
			}
			if n++; n > mostSizes {
				return fmt.Errorf("%s has more than %d files", dir, mostSizes)
			}
			if err != nil {
				out = fmt.Appendf(out, "%s: %v\n", path, err)
				return nil
			}
			info, err := d.Info()
			if err != nil {
				return nil // it was removed meanwhile
			}
			out = fmt.Appendf(out, "%12d %s %s %s\n", info.Size(), info.Mode(), info.ModTime().UTC().Format(time.RFC3339), path)
			return nil
		})
		if err != nil {
			return out, err
		}
	}
	return out, nil
}
