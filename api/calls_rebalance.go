package api

import (
	"context"
	"strings"

	"cantina/internal/text"
	"cantina/lrp"
	"cantina/plan"
	pb "cantina/wire/cantinav1"
)

// RebalanceQuery selects the instances that may be moved, and bounds the moves.
type RebalanceQuery struct {
	Services []lrp.ServiceKey // nil = all
	Cells    []string         // nil = all
	MaxMoves int
	Apply    bool // begin the moves, of each service one
	// CountOnly asks only how many instances are being moved.
	CountOnly bool
}

// Balance is a plan of moves, or the moves that have begun.
type Balance struct {
	Moves     []Relocation
	Left      []NotMoved
	Moving    int // instances that were being moved before
	Deviation float64
	// DeviationAfter is the standard deviation of the use of the cells after the moves, in percent.
	DeviationAfter float64
	Partial        bool
}

// Relocation is the move of an instance, with its gain.
type Relocation struct{ Instance, From, To, Gain string }

// NotMoved is a service that is not moved now.
type NotMoved struct{ Service, Reason string }

const (
	// defaultMoves is how many moves a plan has at most if the caller sets no limit.
	defaultMoves = 20
	maxMoves     = 1000
	// maxBegun is how many moves one call begins at most.
	maxBegun = 25
)

// Rebalance plans moves of instances, and begins them if asked to.
func (c cellCalls) Rebalance(ctx context.Context, q *request[pb.RebalanceRequest]) (*response[pb.RebalanceResponse],
	error) {
	r := RebalanceQuery{Cells: q.Msg.Cell, MaxMoves: int(q.Msg.MaxMoves), Apply: q.Msg.Apply,
		CountOnly: q.Msg.CountOnly}
	for _, name := range q.Msg.Service {
		domain, name, ok := strings.Cut(name, "/")
		k := lrp.ServiceKey{Domain: domain, Name: name}
		if !ok || !lrp.ValidName(domain) || !lrp.ValidName(name) {
			return nil, invalid("service", "%q is not DOMAIN/NAME", text.Shorten(text.Clean(name), 100))
		}
		r.Services = append(r.Services, k)
	}
	switch {
	case r.MaxMoves == 0:
		r.MaxMoves = defaultMoves
	case r.MaxMoves < 0 || r.MaxMoves > maxMoves:
		return nil, invalid("max_moves", "must be from 1 to %d", maxMoves)
	}
	if !r.Apply || r.CountOnly {
		return get(c.Server, func(b *Backend) (Balance, error) { return b.Cells.Rebalance(ctx, r, plan.Write{}) },
			balanceMessage)
	}
	r.MaxMoves = min(r.MaxMoves, maxBegun)
	var m *pb.RebalanceResponse
	err := write(ctx, c.Server, q.Msg.Write, func(b *Backend, w plan.Write) error {
		at := b.Events.Newest()
		got, err := b.Cells.Rebalance(ctx, r, w)
		m = balanceMessage(&got, at.String())
		return err
	})
	return answer(m, err)
}

// planRebalance is Rebalance for GET requests, which change nothing.
func (c cellCalls) planRebalance(ctx context.Context, q *request[pb.RebalanceRequest]) (*response[pb.RebalanceResponse],
	error) {
	q.Msg.Apply = false
	return c.Rebalance(ctx, q)
}

func balanceMessage(b *Balance, at string) *pb.RebalanceResponse {
	m := &pb.RebalanceResponse{Moving: int32(b.Moving), Deviation: b.Deviation, DeviationAfter: b.DeviationAfter,
		Partial: b.Partial, Position: at}
	for _, x := range b.Moves {
		m.Moves = append(m.Moves, &pb.Relocation{Instance: text.Clean(x.Instance), From: text.Clean(x.From),
			To: text.Clean(x.To), Gain: text.Clean(x.Gain)})
	}
	for _, x := range b.Left {
		m.Left = append(m.Left, &pb.NotMoved{Service: text.Clean(x.Service), Reason: text.Clean(x.Reason)})
	}
	return m
}
