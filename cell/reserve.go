package cell

import (
	"errors"

	"cantina/executor"
	"cantina/lrp"
	"cantina/task"
)

// reserveLRP reserves the container of an instance; false: there is one already.
func (h *harmoniser) reserveLRP(w LRPWork, epoch int64) (bool, error) {
	h.containers.plans.put(w.Instance, plan{workload: w.Workload, domain: w.Service.Domain, env: lrpEnv(w)})
	err := h.exec.Reserve(executor.Reservation{ID: w.Instance, Labels: stamp(lrpLabels(w), h.session.joined(), epoch),
		Resources: w.Workload.Resources,
		Ports:     w.Workload.Ports, DeadlineBound: w.DeadlineBound, Expires: claimLife})
	if errors.Is(err, executor.ErrExists) {
		return false, nil
	}
	if err != nil {
		h.containers.plans.drop(w.Instance)
		return false, err
	}
	h.known.setOrdinary(w.Key, &lrp.Actual{Key: w.Key, Service: w.Service, State: lrp.Unclaimed})
	return true, nil
}

// reserveTask reserves the container of a task; false: there is one already.
func (h *harmoniser) reserveTask(w TaskWork, epoch int64) (bool, error) {
	id := TaskContainer(w.UID)
	h.containers.plans.put(id, plan{workload: w.Workload, domain: w.Domain, env: taskEnv(w)})
	err := h.exec.Reserve(executor.Reservation{ID: id, Labels: stamp(taskLabels(w), h.session.joined(), epoch),
		Resources: w.Workload.Resources,
		Ports:     w.Workload.Ports, DeadlineBound: w.DeadlineBound, Expires: claimLife})
	if errors.Is(err, executor.ErrExists) {
		return false, nil
	}
	if err != nil {
		h.containers.plans.drop(id)
		return false, err
	}
	h.known.setTask(w.GUID, &task.Task{GUID: w.GUID, UID: w.UID, State: task.Pending})
	return true, nil
}
