package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"cantina/api"
	tree "cantina/executor/place"
	pb "cantina/wire/cantinav1"
)

// copyFlags are the flags of cp.
type copyFlags struct{ domain, user string }

func cpVerb(c *cli) *cobra.Command {
	f := &copyFlags{}
	cmd := &cobra.Command{
		Use:   "cp SUBJECT:PATH LOCAL | cp LOCAL SUBJECT:PATH",
		Short: "Copy files from or to a running container",
		Long: "cp copies a file or a directory from the container of a running instance, task or batch task, or to it. " +
			"For a service or job, cp uses the first running instance or batch task. A PATH that does not begin " +
			"with / is relative to the " +
			"container's directory. A LOCAL that contains a colon begins with ./ or /.\n" +
			"\n" +
			"If the destination is a directory, the copy is put there under its own name; otherwise it gets the name " +
			"of the destination, in a directory that must exist. SOURCE/. copies the content of a directory. LOCAL - is " +
			"a tar stream on standard input or output.\n" +
			"\n" +
			"Files are read and written with the rights of the container's user, or of --user. New files in the " +
			"container belong to that user, new files here to you. Modes and times are kept; set-user-ID bits, devices, " +
			"sockets and pipes are not copied. A source that is a link is followed, within the container; links " +
			"in a directory are copied as links. Files that were copied before an error remain.\n" +
			"\n" + subjectHelp,
		Example: "  cantina cp web/0:/var/log/app.log .\n" +
			"  cantina cp ./config.d web:/etc/app\n" +
			"  cantina cp count[3]:out/. ./results\n" +
			"  cantina cp db:/data - | gzip > data.tar.gz",
		Args: exactly(2, "a source and a destination"),
		RunE: func(_ *cobra.Command, args []string) error { return copyFiles(c, f, args[0], args[1]) },
	}
	domainFlag(cmd, &f.domain)
	cmd.Flags().VarP(&userFlag{&f.user}, "user", "u", "whose rights are used: name, uid or uid:gid")
	c.waiting(cmd)
	return cmd
}

// copyEnd is a source or destination of a copy.
type copyEnd struct {
	subject string // empty = here
	path    string
}

// copyEndOf reads SUBJECT:PATH, or a path here. The node of a batch task may contain colons.
func copyEndOf(text string) copyEnd {
	if text == "-" || strings.HasPrefix(text, "/") || strings.HasPrefix(text, ".") {
		return copyEnd{path: text}
	}
	from := 0
	if open := strings.IndexByte(text, '['); open >= 0 && open < strings.IndexByte(text, ':') {
		from = max(0, strings.Index(text, "]:"))
	}
	subject, path, ok := strings.Cut(text[from:], ":")
	if !ok {
		return copyEnd{path: text}
	}
	if path == "" {
		path = "."
	}
	return copyEnd{text[:from] + subject, path}
}

func copyFiles(c *cli, f *copyFlags, source, destination string) error {
	from, to := copyEndOf(source), copyEndOf(destination)
	if (from.subject == "") == (to.subject == "") {
		return failf(api.ExitUsage,
			"one of source and destination must be SUBJECT:PATH, for example: cantina cp web:/etc/hosts .")
	}
	if from.path == "" || to.path == "" {
		return failf(api.ExitUsage, "the path is empty")
	}
	ctx, cancel := c.limited()
	defer cancel()
	x := &copier{c: c, f: f, from: from, to: to}
	defer x.progress()()
	var err error
	if from.subject != "" {
		err = x.fetch(ctx)
	} else {
		err = x.send(ctx)
	}
	var e *exit
	if err != nil && x.bytes.Load() > 0 && errors.As(err, &e) {
		err = failf(e.code, "%w; the copy is incomplete", e.err)
	}
	return err
}

// copier is one copy.
type copier struct {
	c        *cli
	f        *copyFlags
	from, to copyEnd
	bytes    atomic.Int64 // of the stream
}

// Write counts.
func (x *copier) Write(p []byte) (int, error) {
	x.bytes.Add(int64(len(p)))
	return len(p), nil
}

func (x *copier) start(ctx context.Context, subject string, m *pb.ExecCopy) (*api.Exec, error) {
	m.User = x.f.user
	return startExec(ctx, x.c, subject, x.f.domain, &pb.ExecWork{Kind: &pb.ExecWork_Copy{Copy: m}})
}

// send copies from here.
func (x *copier) send(ctx context.Context) error {
	name, source := "", x.from.path
	if source != "-" {
		name = tree.BaseOf(source)
		abs, err := filepath.Abs(source)
		if err == nil {
			_, err = os.Stat(source)
		}
		if err != nil {
			return failf(api.ExitFailed, "%w", err)
		}
		if source = abs; name == "" {
			source += "/."
		} else {
			name = tree.BaseOf(source)
		}
	}
	s, err := x.start(ctx, x.to.subject, &pb.ExecCopy{Path: x.to.path, ToContainer: true, Name: name})
	if err != nil {
		return err
	}
	packed := make(chan error, 1)
	go func() {
		err := x.pack(ctx, source, s)
		if err == nil {
			err = s.CloseStdin()
		}
		packed <- err
		if err != nil && !errors.Is(err, io.ErrClosedPipe) {
			s.Close() // nothing is taken for complete
		}
	}()
	end, err := receive(s, nil)
	s.Close()
	if perr := <-packed; end == nil && perr != nil && !errors.Is(perr, io.ErrClosedPipe) && !errors.Is(perr, io.EOF) {
		return failf(api.ExitFailed, "%w", perr)
	}
	return x.ended(x.to, end, err)
}

// pack writes the tar stream of a file or directory here, or of standard input.
func (x *copier) pack(ctx context.Context, source string, s *api.Exec) error {
	w := bufio.NewWriterSize(io.MultiWriter(s, x), 32<<10)
	var err error
	if source == "-" {
		_, err = io.Copy(w, x.c.In)
	} else {
		err = tree.Pack(ctx, source, w)
	}
	if err != nil {
		return err
	}
	return w.Flush()
}

// fetch copies from a container.
func (x *copier) fetch(ctx context.Context) error {
	s, err := x.start(ctx, x.from.subject, &pb.ExecCopy{Path: x.from.path})
	if err != nil {
		return err
	}
	defer s.Close()
	_ = s.CloseStdin() // Receive returns the reason
	if x.to.path == "-" {
		end, err := receive(s, io.MultiWriter(x, x.c.Out))
		return x.ended(x.from, end, err)
	}
	r, w := io.Pipe()
	unpacked := make(chan error, 1)
	go func() {
		err := tree.Unpack(ctx, r, x.to.path, tree.BaseOf(x.from.path), 0)
		if err == nil {
			_, err = io.Copy(io.Discard, r) // the padding of the stream
		}
		r.CloseWithError(errors.Join(err, io.ErrClosedPipe))
		unpacked <- err
	}()
	end, err := receive(s, io.MultiWriter(x, w))
	w.Close()
	if uerr := <-unpacked; uerr != nil && (end == nil && errors.Is(err, uerr) || end != nil && end.Reason == "") {
		return failf(api.ExitFailed, "%w", uerr)
	}
	return x.ended(x.from, end, err)
}

// receive writes output to w, and returns the end.
func receive(s *api.Exec, w io.Writer) (*pb.ExecEnd, error) {
	for {
		m, err := s.Receive()
		if err != nil {
			return nil, err
		}
		if m.GetEnd() != nil {
			return m.GetEnd(), nil
		}
		if b := m.GetStdout(); len(b) > 0 && w != nil {
			if _, err := w.Write(b); err != nil {
				return nil, failf(api.ExitFailed, "%w", err)
			}
		}
	}
}

// ended is the error of a copy that ended in a container.
func (x *copier) ended(at copyEnd, end *pb.ExecEnd, err error) error {
	if end.GetReason() != "" {
		return failf(api.ExitFailed, "%s:%s: %s", at.subject, at.path, printable(end.Reason))
	}
	return err
}

// progress draws a line on a terminal until the copy has ended.
func (x *copier) progress() (end func()) {
	if !x.c.ErrTTY || x.c.quiet || x.to.path == "-" && x.c.OutTTY {
		return func() {}
	}
	var wg sync.WaitGroup
	over := make(chan struct{})
	begin, drawn := time.Now(), false
	wg.Go(func() {
		t := time.NewTicker(redrawEvery)
		defer t.Stop()
		for {
			select {
			case <-over:
				return
			case now := <-t.C:
				n := x.bytes.Load()
				drawn = true
				x.c.sayf("\r\x1b[K%s, %s/s", bytesText(n), bytesText(int64(float64(n)/now.Sub(begin).Seconds())))
			}
		}
	})
	return func() {
		close(over)
		wg.Wait()
		if drawn {
			x.c.sayf("\r\x1b[K")
		}
	}
}

// bytesText is a number of bytes for people.
func bytesText(n int64) string {
	f, unit := float64(n), 0
	for f >= 1000 && unit < 4 {
		f, unit = f/1000, unit+1
	}
	if unit == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %cB", f, "kMGT"[unit-1])
}
