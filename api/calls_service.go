package api

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"cantina/fault"
	"cantina/internal/text"
	"cantina/label"
	"cantina/lrp"
	"cantina/plan"
	pb "cantina/wire/cantinav1"
)

// ListServices lists services by domain and name.
func (c serviceCalls) ListServices(_ context.Context,
	q *request[pb.ListServicesRequest]) (*response[pb.ListServicesResponse], error) {
	f, err := nameFilter(q.Msg)
	if err != nil {
		return nil, err
	}
	all, where, err := list(c.Server, q.Msg.Page, func(b *Backend, r plan.Range) (plan.Page[plan.Service], error) {
		return b.Services.ListServices(f, r)
	}, func(s *plan.Service) *pb.Service { return service(s, false) })
	return answer(&pb.ListServicesResponse{Services: all, Listing: where}, err)
}

// GetService returns a service with its versions.
func (c serviceCalls) GetService(_ context.Context, q *request[pb.GetServiceRequest]) (*response[pb.GetServiceResponse],
	error) {
	return get(c.Server, func(b *Backend) (plan.Service, error) {
		return b.Services.GetService(serviceKey(q.Msg.Domain, q.Msg.Name))
	}, func(s *plan.Service, _ string) *pb.GetServiceResponse {
		return &pb.GetServiceResponse{Service: service(s, true)}
	})
}

// nameFilter is the filter of a request for a list.
func nameFilter(q interface {
	GetDomain() string
	GetName() string
	GetSelector() string
}) (plan.NameFilter, error) {
	labels, err := selector(q.GetSelector())
	return plan.NameFilter{Domain: q.GetDomain(), Name: q.GetName(), Labels: labels}, err
}

func selector(text string) (label.Selector, error) {
	s, err := label.ParseSelector(text)
	if err != nil {
		return nil, invalid("selector", "%v", err)
	}
	return s, nil
}

// serviceKey puts in the default domain.
func serviceKey(domain, name string) lrp.ServiceKey {
	return lrp.ServiceKey{Domain: orDefault(domain), Name: name}
}

func orDefault(domain string) string {
	if domain == "" {
		return "default"
	}
	return domain
}

// ListInstances lists indices by the resolved view, or every row.
func (c serviceCalls) ListInstances(_ context.Context,
	q *request[pb.ListInstancesRequest]) (*response[pb.ListInstancesResponse], error) {
	states, err := lrpStates(q.Msg.State)
	if err != nil {
		return nil, err
	}
	labels, err := selector(q.Msg.Selector)
	if err != nil {
		return nil, err
	}
	all, where, err := list(c.Server, q.Msg.Page, func(b *Backend, r plan.Range) (plan.Page[plan.Instance], error) {
		return b.Services.ListInstances(plan.InstanceFilter{Domain: q.Msg.Domain, Service: q.Msg.Service, Cell: q.Msg.Cell,
			States: states, Orphans: q.Msg.Orphans, Labels: labels}, r)
	}, func(i *plan.Instance) []*pb.Instance { return instances(i, q.Msg.All) })
	return answer(&pb.ListInstancesResponse{Instances: slices.Concat(all...), Listing: where}, err)
}

func lrpStates(names []string) ([]lrp.State, error) {
	return named("state", names, lrp.Unclaimed, lrp.Crashed)
}

// named returns the values from first to last whose names, in any case, are listed in a field.
func named[T interface {
	~int
	fmt.Stringer
}](field string, names []string, first, last T) ([]T, error) {
	var all []string
	for v := first; v <= last; v++ {
		all = append(all, v.String())
	}
	var out []T
	for _, n := range names {
		i := slices.IndexFunc(all, func(is string) bool { return strings.EqualFold(is, n) })
		if i < 0 {
			return nil, invalid(field, "%q is none of %s", text.Shorten(n, 60), strings.Join(all, ", "))
		}
		out = append(out, first+T(i))
	}
	return out, nil
}

// ScaleService sets how many instances are wanted.
func (c serviceCalls) ScaleService(ctx context.Context,
	q *request[pb.ScaleServiceRequest]) (*response[pb.ScaleServiceResponse], error) {
	if q.Msg.Instances < 0 {
		return nil, invalid("instances", "must not be negative")
	}
	var s plan.Service
	err := write(ctx, c.Server, q.Msg.Write, func(b *Backend, w plan.Write) (err error) {
		s, err = b.Services.ScaleService(ctx, serviceKey(q.Msg.Domain, q.Msg.Name), int(q.Msg.Instances), w)
		return err
	})
	return answer(&pb.ScaleServiceResponse{Service: service(&s, false)}, err)
}

// RemoveService undesires a service.
func (c serviceCalls) RemoveService(ctx context.Context,
	q *request[pb.RemoveServiceRequest]) (*response[pb.RemoveServiceResponse], error) {
	var s plan.Service
	err := write(ctx, c.Server, q.Msg.Write, func(b *Backend, w plan.Write) (err error) {
		s, err = b.Services.RemoveService(ctx, serviceKey(q.Msg.Domain, q.Msg.Name), w)
		return err
	})
	return answer(&pb.RemoveServiceResponse{Service: service(&s, false)}, err)
}

// knownIndices refuses instances that the service has not.
func knownIndices(b *Backend, k lrp.ServiceKey, indices []int) error {
	s, err := b.Services.GetService(k)
	if err != nil {
		return err
	}
	for _, i := range indices {
		if i >= s.Instances {
			return fmt.Errorf("service %s has %d instances and no index %d: %w", k, s.Instances, i, fault.ErrNotFound)
		}
	}
	return nil
}

// RestartService has instances started afresh: all by the rules of an update, or the given
// ones, or all, at once.
func (c serviceCalls) RestartService(ctx context.Context,
	q *request[pb.RestartServiceRequest]) (*response[pb.RestartServiceResponse], error) {
	var indices []int
	for _, i := range q.Msg.Index {
		if i < 0 {
			return nil, invalid("index", "must not be negative")
		}
		indices = append(indices, int(i))
	}
	n := 0
	err := write(ctx, c.Server, q.Msg.Write, func(b *Backend, w plan.Write) (err error) {
		if err = knownIndices(b, serviceKey(q.Msg.Domain, q.Msg.Name), indices); err != nil {
			return err
		}
		k := serviceKey(q.Msg.Domain, q.Msg.Name)
		if len(indices) == 0 && !q.Msg.AllAtOnce {
			n, err = b.Services.RestartService(ctx, k, w)
		} else {
			n, err = b.Services.RetireInstances(ctx, k, indices, w)
		}
		return err
	})
	return answer(&pb.RestartServiceResponse{Restarted: int32(n)}, err)
}
