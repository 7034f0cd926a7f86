package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime/debug"
	"strings"

	"connectrpc.com/connect"

	"cantina/batch"
	"cantina/internal/text"
	"cantina/spec"
	"cantina/wire"
	pb "cantina/wire/cantinav1"
	"cantina/worker"
)

// Headers of requests and answers.
const (
	headerRequestID = "Cantina-Request-Id"
	headerKey       = "Idempotency-Key"
	headerIfMatch   = "If-Match"
	headerLeader    = "Cantina-Leader"
)

// edge is the interceptor around every call of CantinaService: it gives a request
// its id and an error its class.
type edge struct{ s *Server }

// WrapUnary implements connect.Interceptor.
func (e *edge) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		ctx, id := e.s.identify(ctx)
		ctx = withHeaders(ctx, req.Header())
		res, err := next(ctx, req)
		if err != nil {
			return nil, e.s.toConnect(err, id)
		}
		res.Header().Set(headerRequestID, id)
		return res, nil
	}
}

// WrapStreamingClient implements connect.Interceptor; the server is no client.
func (e *edge) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler implements connect.Interceptor.
func (e *edge) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		ctx, id := e.s.identify(ctx)
		conn.ResponseHeader().Set(headerRequestID, id)
		if err := next(ctx, conn); err != nil {
			return e.s.toConnect(err, id)
		}
		return nil
	}
}

type (
	requestID struct{}
	headers   struct{}
	callerKey struct{}
)

// identify gives a request an id, once.
func (s *Server) identify(ctx context.Context) (context.Context, string) {
	if id, ok := ctx.Value(requestID{}).(string); ok {
		return ctx, id
	}
	id := s.cfg.NewID()
	return context.WithValue(ctx, requestID{}, id), id
}

// withHeaders remembers the headers that mirror the fields of Write.
func withHeaders(ctx context.Context, h http.Header) context.Context {
	return context.WithValue(ctx, headers{}, h)
}

// caller returns the name of the caller, for the audit log.
func caller(ctx context.Context) string {
	who, _ := ctx.Value(callerKey{}).(string)
	return who
}

// hint is the remedy for an error without its own.
func hint(err error, class Class) string {
	switch {
	case errors.Is(err, batch.ErrUnknownJob):
		return "see cantina job ls"
	case errors.Is(err, worker.ErrUnknownProcess):
		return "see cantina cells -o wide"
	}
	return class.Hint
}

// detail is the body of an error.
func (s *Server) detail(err error, id string) (Class, *pb.ErrorDetail) {
	class := s.classify(err)
	d := &pb.ErrorDetail{Code: class.Code, Hint: hint(err, class), RequestId: id}
	var field *FieldError
	if errors.As(err, &field) {
		d.Field = field.Field
		if field.Hint != "" {
			d.Hint = field.Hint
		}
	}
	var problems *spec.Problems
	if errors.As(err, &problems) {
		for _, p := range problems.List {
			d.Problems = append(d.Problems, &pb.Problem{
				File: text.Clean(p.File), Line: int32(p.Line), Column: int32(p.Column), Path: text.Clean(p.Path),
				Text: text.Clean(p.Text), Hint: text.Clean(p.Hint),
			})
		}
		if len(d.Problems) > 0 {
			first := d.Problems[0]
			d.Field, d.Line, d.Hint = first.Path, first.Line, first.Hint
		}
	}
	var other *NotLeader
	if errors.As(err, &other) {
		d.Leader, d.Term = other.Leader, wire.FromTerm(other.Term)
	}
	return class, d
}

// say returns the public text of an error. Unexpected errors are logged with their request id.
func (s *Server) say(err error, class Class, id string) string {
	if class.Code == "internal" {
		s.cfg.Log.Error("request failed", "request_id", id, "error", err)
	}
	return text.Clean(err.Error())
}

func (s *Server) toConnect(err error, id string) error {
	var already *connect.Error
	if errors.As(err, &already) {
		return already
	}
	class, d := s.detail(err, id)
	out := connect.NewError(class.Connect, errors.New(s.say(err, class, id)))
	out.Meta().Set(headerRequestID, id)
	if extra, derr := connect.NewErrorDetail(d); derr == nil {
		out.AddDetail(extra)
	}
	return out
}

// recovered turns a panic of a handler into an error: remote input never aborts
// the process.
func (s *Server) recovered(r any) error {
	s.cfg.Log.Error("handler panicked", "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
	return fmt.Errorf("handler panicked: %v", r)
}

// entry wraps every request: it gets an id and its caller's name. Package guard decides before
// whether the caller has access.
func (s *Server) entry(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, id := s.identify(r.Context())
		ctx = context.WithValue(ctx, callerKey{}, callerOf(r))
		w.Header().Set(headerRequestID, id)
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// withoutPort is a caller without the port of its connection.
func withoutPort(who string) string {
	if host, _, err := net.SplitHostPort(who); err == nil {
		return host
	}
	return who
}

// callerOf names the client certificate, or the network address.
func callerOf(r *http.Request) string {
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		return r.TLS.PeerCertificates[0].Subject.CommonName
	}
	if r.RemoteAddr == "" || strings.HasPrefix(r.RemoteAddr, "@") {
		return "unix socket"
	}
	return r.RemoteAddr
}
