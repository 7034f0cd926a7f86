package api

import (
	"context"
	"errors"
	"net/http"

	"connectrpc.com/connect"

	"cantina/internal/guard"
	"cantina/internal/text"
	"cantina/plan"
	pb "cantina/wire/cantinav1"
	"cantina/wire/cantinav1/cantinav1connect"
)

// Containers runs programs in containers, and copies files from and to them.
type Containers interface {
	// Exec runs a program beside those of a subject, or makes a copy, until it has ended or ctx is
	// done. in returns the next input, out sends one message: the last is the end. Work that could
	// not be done is no error.
	Exec(ctx context.Context, s plan.Subject, w *pb.ExecWork, in func() (*pb.ExecInput, error),
		out func(*pb.ExecResponse) error) error
}

// Exec runs a program in a container, or copies files from or to it. It ends with its stream, and
// with the term of the leader.
func (c streamCalls) Exec(ctx context.Context, stream *connect.BidiStream[pb.ExecRequest, pb.ExecResponse]) error {
	b, err := c.now()
	if err != nil {
		return err
	}
	done, err := c.streams.open(ctx)
	if err != nil {
		return err
	}
	defer done()
	first, err := stream.Receive()
	if err != nil {
		return err
	}
	w := first.GetStart().GetWork()
	if w.GetKind() == nil {
		return invalid("start.work", "the first message must be the start, with a program or a copy")
	}
	s, err := subject(first.GetStart().GetSubject())
	if err != nil {
		return err
	}
	if w.GetProgram() != nil && w.GetProgram().GetPath() == "" {
		return invalid("start.work.program.path", "must not be empty")
	}
	if w.GetCopy() != nil && w.GetCopy().GetPath() == "" {
		return invalid("start.work.copy.path", "must not be empty")
	}
	c.cfg.Log.Info("exec", "caller", caller(ctx), "kind", string(s.Kind), "domain", s.Domain, "name", text.Clean(s.Name),
		"program", text.Clean(w.GetProgram().GetPath()), "path", text.Clean(w.GetCopy().GetPath()))
	in := func() (*pb.ExecInput, error) {
		m, err := stream.Receive()
		return m.GetInput(), err
	}
	err = b.Containers.Exec(ctx, s, w, in, stream.Send)
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return nil // the client went
	}
	return err
}

// unhurried lets the stream of Exec take any time, and any number of bytes. h serves all other calls.
func unhurried(h, limited http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == cantinav1connect.CantinaServiceExecProcedure {
			guard.Endless(w)
			h.ServeHTTP(w, r)
			return
		}
		limited.ServeHTTP(w, r)
	})
}
