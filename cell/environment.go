package cell

import (
	"strconv"

	"cantina/action"
	"cantina/batch"
	"cantina/worker"
)

func lrpEnv(w LRPWork) []action.Variable {
	return []action.Variable{
		{Name: "CANTINA_DOMAIN", Value: w.Service.Domain},
		{Name: "CANTINA_SERVICE", Value: w.Service.Name},
		{Name: "CANTINA_INDEX", Value: strconv.Itoa(w.Key.Index)},
		{Name: "CANTINA_INSTANCE", Value: w.Instance},
	}
}

func batchEnv(r worker.Run, w *BatchWork) []action.Variable {
	domain, _ := batch.SplitName(r.Work.Job)
	return append([]action.Variable{{Name: "CANTINA_DOMAIN", Value: domain}}, w.Env...)
}

func taskEnv(w TaskWork) []action.Variable {
	return []action.Variable{
		{Name: "CANTINA_DOMAIN", Value: w.Domain},
		{Name: "CANTINA_TASK", Value: w.GUID},
	}
}
