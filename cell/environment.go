package cell

import (
	"slices"
	"strconv"

	"cantina/action"
)

// environment is what a container gets beside its workload's own variables, and which
// are stronger.
func (c *Cell) environment(w *action.Workload, own []action.Variable) []action.Variable {
	var api []action.Variable
	if w.API {
		api = c.cfg.API
	}
	return slices.Concat(api, []action.Variable{{Name: "CANTINA_CELL", Value: string(c.cfg.Name)}}, own)
}

func lrpEnv(w LRPWork) []action.Variable {
	return []action.Variable{
		{Name: "CANTINA_DOMAIN", Value: w.Service.Domain},
		{Name: "CANTINA_SERVICE", Value: w.Service.Name},
		{Name: "CANTINA_INDEX", Value: strconv.Itoa(w.Key.Index)},
		{Name: "CANTINA_INSTANCE", Value: w.Instance},
	}
}

func taskEnv(w TaskWork) []action.Variable {
	return []action.Variable{
		{Name: "CANTINA_DOMAIN", Value: w.Domain},
		{Name: "CANTINA_TASK", Value: w.GUID},
	}
}
