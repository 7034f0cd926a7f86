package cell

import (
	"strconv"

	"cantina/action"
)

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
