package lrp

import (
	"fmt"
	"slices"
	"strings"
)

// A machine has each port once: as many instances that fix the same one can run as there are
// machines which suit them.

// PortUses lists the definitions that fix a port and have instances, in order of their
// services, and counts these.
func PortUses(port int, all []*Desired) (uses []*Desired, instances int) {
	for _, d := range all {
		if d.Instances > 0 && slices.Contains(d.Workload.FixedPorts(), port) {
			uses = append(uses, d)
			instances += d.Instances
		}
	}
	slices.SortFunc(uses, func(a, b *Desired) int { return a.Service.Compare(b.Service) })
	return uses, instances
}

// PortsFit returns why the instances of d cannot all run at the same time, or nil: it fixes a
// port that so many of them, or of them and others, fix that there are not as many machines.
// machines counts those that suit one of some definitions; ok is false when that is not known.
func PortsFit(d *Desired, all []*Desired, machines func([]*Desired) (n int, ok bool)) error {
	if d.Instances == 0 {
		return nil
	}
	for _, port := range d.Workload.FixedPorts() {
		uses, _ := PortUses(port, all)
		for _, of := range [][]*Desired{{d}, uses} {
			_, need := PortUses(port, of)
			have, ok := machines(of)
			if ok && need > have {
				return portsDoNotFit(port, of, need, have)
			}
		}
	}
	return nil
}

func portsDoNotFit(port int, of []*Desired, need, have int) error {
	var who []string
	for _, d := range of {
		who = append(who, fmt.Sprintf("%v %d", d.Service, d.Instances))
	}
	suit := "machines suit"
	if have == 1 {
		suit = "machine suits"
	}
	fewer := "ask for fewer instances"
	if len(of) > 1 {
		fewer = "remove one of the services (apply --prune -l LABELS removes those that the file does not name)"
	}
	return fmt.Errorf("ports: port %d is fixed for %d instances (%s), a machine has it once, and %d %s them: "+
		"leave out fixed, so that the cell chooses a port, %s, or start cells on more machines first: %w",
		port, need, strings.Join(who, ", "), have, suit, fewer, ErrInvalid)
}

// portTwice returns the names of two ports that fix the same number.
func (d *Desired) portTwice() (first, second string, ok bool) {
	ports := d.Workload.Ports
	for i, p := range ports {
		if p.Fixed == 0 {
			continue
		}
		for _, q := range ports[:i] {
			if q.Fixed == p.Fixed {
				return q.Name, p.Name, true
			}
		}
	}
	return "", "", false
}
