// Package link is the network between leader and cells: handlers and clients of the internal calls
// in both directions, over Connect with protobuf. Unary calls use the connection that the cell
// keeps to its leader (package mux), streams and output use HTTP/1.1 to the cell's address. It
// converts messages to the values of cell, worker, lrp and task and back, and makes no decisions.
// `cantina dev` has no network between its two halves and uses only Directory.
//
// A server that does not lead answers not-leader with the addresses of the leader. The transport
// sends no call twice: requests carry no idempotency key, and a call whose response is lost has an
// unknown outcome for its caller. (Bistro worker protocol, Core calls.)
package link

import (
	"errors"
	"net/http"
	"strings"

	"connectrpc.com/connect"

	"cantina/cell"
	"cantina/fence"
	"cantina/internal/guard"
	"cantina/internal/mux"
	"cantina/lrp"
	"cantina/wire"
	pb "cantina/wire/cantinav1"
	"cantina/worker"
)

// Headers of a not-leader answer.
const (
	headerLeader = "Cantina-Leader" // addresses, comma separated
	headerTerm   = "Cantina-Term"
	// headerCluster is the identity of that leader's cluster.
	headerCluster = "Cantina-Cluster"
)

// maxMessage bounds one message in bytes, both ways.
const maxMessage = 64 << 20

// NotLeader is the answer of a server that does not lead. It is cell.ErrNotLeader.
type NotLeader struct {
	Addresses []string // of the leader; empty = not known
	Term      fence.Term
	Cluster   fence.Cluster // of the leader; empty = not known
	// Cause is why the called server does not lead although it could; empty = another one leads.
	Cause string
}

// Error names the leader.
func (n *NotLeader) Error() string {
	if n.Cause != "" {
		return cell.ErrNotLeader.Error() + ": " + n.Cause
	}
	if len(n.Addresses) == 0 {
		return cell.ErrNotLeader.Error() + "; leader unknown"
	}
	return cell.ErrNotLeader.Error() + "; try " + strings.Join(n.Addresses, ", ")
}

// Is makes errors.Is find cell.ErrNotLeader.
func (n *NotLeader) Is(target error) bool { return target == cell.ErrNotLeader }

// toConnect gives an error of a handler its code.
func toConnect(err error) error {
	var not *NotLeader
	var coded *connect.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &coded):
		return coded
	case errors.As(err, &not):
		c := connect.NewError(connect.CodeUnavailable, err)
		c.Meta().Set(headerLeader, strings.Join(not.Addresses, ","))
		c.Meta().Set(headerTerm, not.Term.String())
		c.Meta().Set(headerCluster, string(not.Cluster))
		return c
	case errors.Is(err, cell.ErrForeign), errors.Is(err, cell.ErrTerm), errors.Is(err, cell.ErrNewer),
		errors.Is(err, cell.ErrProc), errors.Is(err, cell.ErrCell), errors.Is(err, worker.ErrNotAccepting):
		return connect.NewError(connect.CodeFailedPrecondition, err)
	case errors.Is(err, cell.ErrUnknownContainer):
		return connect.NewError(connect.CodeNotFound, err)
	case errors.Is(err, wire.ErrMalformed), errors.Is(err, worker.ErrMalformed):
		return connect.NewError(connect.CodeInvalidArgument, err)
	}
	return connect.NewError(connect.CodeUnknown, err)
}

// fromConnect turns the error of a client back.
func fromConnect(err error) error {
	var c *connect.Error
	if !errors.As(err, &c) {
		return err
	}
	if term := c.Meta().Get(headerTerm); term != "" {
		t, perr := fence.ParseTerm(term)
		if perr != nil {
			return err
		}
		n := &NotLeader{Term: t, Cluster: fence.Cluster(c.Meta().Get(headerCluster))}
		if list := c.Meta().Get(headerLeader); list != "" {
			n.Addresses = strings.Split(list, ",")
		}
		return n
	}
	return err
}

// neverSent reports whether a request certainly did not leave: no connection.
func neverSent(err error) bool {
	var dial *dialError
	return errors.As(err, &dial) || errors.Is(err, mux.ErrNotSent)
}

// Unavailable reports that a call failed because its cell could not be reached, took no
// calls, or was another process by then.
func Unavailable(err error) bool {
	code := connect.CodeOf(err)
	return neverSent(err) || code == connect.CodeUnavailable || code == connect.CodeFailedPrecondition
}

func options() []connect.HandlerOption {
	return []connect.HandlerOption{connect.WithReadMaxBytes(maxMessage), guard.Compression(maxMessage),
		connect.WithCompressMinBytes(64 << 10)}
}

func clientOptions() []connect.ClientOption {
	return []connect.ClientOption{connect.WithReadMaxBytes(maxMessage), connect.WithSendCompression("")}
}

// Handlers returns the paths and handlers of the cells' calls to a leader; now returns the present
// leader, or a *NotLeader. The connections of cells are then used to call them.
func Handlers(now func() (cell.Leader, error), cells *Directory) map[string]http.Handler {
	path, h := newLeaderHandler(now)
	return map[string]http.Handler{path: guard.Body(maxMessage, h), mux.Path: cells.muxHandler(h)}
}

// fromState and toState convert a cell's report about itself.
func fromState(s cell.State) *pb.CellState {
	return &pb.CellState{Version: s.Version, Zone: s.Zone, Host: s.Host, InstanceAddress: s.InstanceAddress,
		Stacks: s.Stacks, RequiredTags: s.RequiredTags,
		OptionalTags: s.OptionalTags, Labels: s.Labels, Taints: s.Taints, Capacity: wire.FromAmounts(s.Capacity),
		Foreign: wire.FromAmounts(s.Foreign), Unavailable: s.Unavailable, Draining: s.Draining,
		Address: s.Address, Build: s.Build, Isolation: s.Isolation,
		DrainId: s.Drain.ID, DrainOver: s.Drain.Over, DrainWaits: s.Drain.Waits,
		DrainTimeout: wire.FromDuration(s.Drain.Timeout), Conditions: fromConditions(s.Conditions),
		MostOpenFiles: int64(s.OpenFiles), Withdrawn: s.Withdrawn, Volumes: s.Volumes}
}

func fromConditions(list []cell.Condition) []*pb.Condition {
	var out []*pb.Condition
	for _, c := range list {
		out = append(out, &pb.Condition{Instance: c.Instance, Task: c.Task, Job: c.Job, Node: c.Node, What: c.What,
			Text: c.Text, Unknown: c.Unknown, Uid: c.UID, Since: wire.FromTime(c.Since), Limit: wire.FromDuration(c.Limit),
			Detail:   c.Detail,
			Stopping: c.Stopping, StopBy: wire.FromTime(c.StopBy)})
	}
	return out
}

func toConditions(list []*pb.Condition) []cell.Condition {
	var out []cell.Condition
	for _, m := range list {
		since, _ := wire.ToTime(m.GetSince())
		by, _ := wire.ToTime(m.GetStopBy())
		out = append(out, cell.Condition{Since: since, Limit: m.GetLimit().AsDuration(), Instance: m.GetInstance(),
			Task: m.GetTask(), Job: m.GetJob(), Node: m.GetNode(), What: m.GetWhat(), Text: m.GetText(), Unknown: m.GetUnknown(),
			UID: m.GetUid(), Detail: m.GetDetail(),
			Stopping: m.GetStopping(), StopBy: by})
	}
	return out
}

func toState(m *pb.CellState, name worker.CellName, proc worker.Proc) cell.State {
	var s cell.State
	s.Cell, s.Process, s.Version = string(name), string(proc), m.GetVersion()
	s.InstanceAddress = m.GetInstanceAddress()
	s.Zone, s.Host, s.Stacks, s.RequiredTags = m.GetZone(), m.GetHost(), m.GetStacks(), m.GetRequiredTags()
	s.OptionalTags, s.Labels, s.Taints = m.GetOptionalTags(), m.GetLabels(), m.GetTaints()
	s.Capacity, s.Foreign = wire.ToAmounts(m.GetCapacity()), wire.ToAmounts(m.GetForeign())
	s.OpenFiles, s.Withdrawn, s.Volumes = int(m.GetMostOpenFiles()), m.GetWithdrawn(), m.GetVolumes()
	s.Unavailable, s.Draining = m.GetUnavailable(), m.GetDraining()
	s.Address, s.Build, s.Isolation = m.GetAddress(), m.GetBuild(), m.GetIsolation()
	s.Drain = cell.DrainState{ID: m.GetDrainId(), Over: m.GetDrainOver(), Waits: m.GetDrainWaits(),
		Timeout: m.GetDrainTimeout().AsDuration()}
	s.Conditions = toConditions(m.GetConditions())
	return s
}

func fromKeys(keys []lrp.Key) []*pb.LRPKey {
	out := make([]*pb.LRPKey, len(keys))
	for i, k := range keys {
		out[i] = wire.FromLRPKey(k)
	}
	return out
}
