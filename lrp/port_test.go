package lrp

import (
	"errors"
	"strings"
	"testing"

	"cantina/action"
)

func withPorts(name string, instances int, ports ...int) *Desired {
	d := &Desired{Service: ServiceKey{"d", name}, Instances: instances}
	for i, p := range ports {
		d.Workload.Ports = append(d.Workload.Ports, action.Port{Name: string(rune('a' + i)), Fixed: p})
	}
	return d
}

// TestPortsFit: a fixed port fits as many instances as there are machines, counting other services with the same
// port. An unknown number is not refused.
func TestPortsFit(t *testing.T) {
	for name, c := range map[string]struct {
		d        *Desired
		others   []*Desired
		machines int
		want     string // empty = it fits
	}{
		"one on one": {withPorts("web", 1, 80), nil, 1, ""},
		"two on two": {withPorts("web", 2, 80), nil, 2, ""},
		"two on one": {withPorts("web", 2, 80), nil, 1,
			"port 80 is fixed for 2 instances (d/web 2), a machine has it once, and 1 machine suits them"},
		"its second port": {withPorts("web", 3, 0, 81), nil, 2,
			"port 81 is fixed for 3 instances (d/web 3), a machine has it once, and 2 machines suit them"},
		"with another service":      {withPorts("web", 1, 80), []*Desired{withPorts("api", 1, 80)}, 1, "(d/api 1, d/web 1)"},
		"another port":              {withPorts("web", 1, 80), []*Desired{withPorts("api", 1, 81)}, 1, ""},
		"another one that is at 0":  {withPorts("web", 1, 80), []*Desired{withPorts("api", 0, 80)}, 1, ""},
		"itself at 0":               {withPorts("web", 0, 80), []*Desired{withPorts("api", 2, 80)}, 1, ""},
		"ports that the cell gives": {withPorts("web", 9, 0), []*Desired{withPorts("api", 9, 0)}, 1, ""},
		"not known":                 {withPorts("web", 9, 80), nil, -1, ""},
	} {
		err := PortsFit(c.d, append(c.others, c.d), func([]*Desired) (int, bool) { return c.machines, c.machines >= 0 })
		if (err == nil) != (c.want == "") || err != nil &&
			(!errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAPortIsFixedOnceInAService(t *testing.T) {
	if err := withPorts("web", 1, 80, 81, 0, 0).Validate(); err != nil {
		t.Error(err)
	}
	if err := withPorts("web", 1, 80, 0, 80).Validate(); !errors.Is(err, ErrInvalid) ||
		!strings.Contains(err.Error(), "a and c fix the same port") {
		t.Error(err)
	}
}
