package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"connectrpc.com/connect"

	"cantina/fault"
	"cantina/plan"
	pb "cantina/wire/cantinav1"
)

type (
	request[T any]  = connect.Request[T]
	response[T any] = connect.Response[T]
)

// rangeOf reads a page request.
func rangeOf(p *pb.Page) (plan.Range, error) {
	r := plan.Range{After: p.GetCursor(), Limit: int(p.GetLimit())}
	switch {
	case r.Limit == 0:
		r.Limit = DefaultPage
	case r.Limit < 0 || r.Limit > MaxPage:
		return r, invalid("page.limit", "must be from 1 to %d", MaxPage)
	}
	return r, nil
}

// writeOf reads the write options of a call: the field, or the headers that mirror it.
func writeOf(ctx context.Context, m *pb.Write) (plan.Write, error) {
	w := plan.Write{Key: m.GetIdempotencyKey(), Expect: m.GetIfMatch(), By: caller(ctx)}
	h, _ := ctx.Value(headers{}).(http.Header)
	if w.Key == "" {
		w.Key = h.Get(headerKey)
	}
	if match := strings.Trim(h.Get(headerIfMatch), `"`); w.Expect == 0 && match != "" && match != "*" {
		n, err := strconv.ParseInt(match, 10, 64)
		if err != nil {
			return w, invalid("if_match", "must be a revision")
		}
		w.Expect = n
	}
	if len(w.Key) > maxKey {
		return w, invalid("idempotency_key", "longer than %d bytes", maxKey)
	}
	if w.Expect < 0 {
		return w, invalid("if_match", "must be a revision")
	}
	return w, nil
}

// list is the form of list calls; say makes the message of an item. The position is taken before
// the rows are read: then no later event is missed.
func list[T, M any](s *Server, page *pb.Page, read func(*Backend, plan.Range) (plan.Page[T], error),
	say func(*T) M) ([]M, *pb.Listing, error) {
	r, err := rangeOf(page)
	if err != nil {
		return nil, nil, err
	}
	b, err := s.now()
	if err != nil {
		return nil, nil, err
	}
	at := b.Events.Newest()
	l, err := read(b, r)
	if err != nil {
		return nil, nil, err
	}
	var all []M
	for i := range l.Items {
		all = append(all, say(&l.Items[i]))
	}
	return all, &pb.Listing{Next: l.Next, Revision: l.Revision, Position: at.String()}, nil
}

// get is the form of calls that read one resource. It is read after the position, as in a list.
func get[T, M any](s *Server, read func(*Backend) (T, error), say func(got *T, at string) *M) (*response[M], error) {
	b, err := s.now()
	if err != nil {
		return nil, err
	}
	at := b.Events.Newest()
	got, err := read(b)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(say(&got, at.String())), nil
}

// write is the shape of every writing call.
func write(ctx context.Context, s *Server, m *pb.Write, do func(*Backend, plan.Write) error) error {
	w, err := writeOf(ctx, m)
	if err != nil {
		return err
	}
	b, err := s.now()
	if err != nil {
		return err
	}
	if b.Writable != nil {
		if err := b.Writable(); err != nil {
			return err
		}
	}
	if err = do(b, w); errors.Is(err, fault.ErrTermOver) {
		// The commit may have landed before the term ended.
		return fault.As(err, fault.ErrUnknownOutcome)
	}
	return err
}

// answer wraps a message, or passes the error on.
func answer[T any](m *T, err error) (*response[T], error) {
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(m), nil
}
