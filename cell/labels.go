package cell

import (
	"strconv"

	"cantina/batch"
	"cantina/executor"
	"cantina/fence"
	"cantina/lrp"
	"cantina/worker"
)

// Labels of containers; see docs/design/seams.md, Containers.
const (
	labelKind       = "kind"
	labelDomain     = "domain"
	labelProcess    = "process"
	labelService    = "service"
	labelIndex      = "index"
	labelInstance   = "instance"
	labelTask       = "task"
	labelUID        = "uid"
	labelJob        = "job"
	labelJobUID     = "job_uid"
	labelNode       = "node"
	labelInvocation = "invocation"
	labelExclusive  = "exclusive"
	labelAttempt    = executor.LabelAttempt
	// labelCluster and labelEpoch are the store that the work was started for, and its age
	// then: a store that is younger may not know it.
	labelCluster = "cluster"
	labelEpoch   = "epoch"

	// onlyAttempt is that of a task: it runs once.
	onlyAttempt = "1"

	kindLRP   = "lrp"
	kindTask  = "task"
	kindBatch = "batch"
)

func lrpLabels(w LRPWork) executor.Labels {
	l := executor.Labels{labelKind: kindLRP, labelDomain: w.Service.Domain, labelService: w.Service.Name,
		labelProcess: w.Key.Process, labelIndex: strconv.Itoa(w.Key.Index), labelInstance: w.Instance,
		labelAttempt: w.Instance}
	if w.Exclusive {
		l[labelExclusive] = "true"
	}
	return l
}

func taskLabels(w TaskWork) executor.Labels {
	return executor.Labels{labelKind: kindTask, labelDomain: w.Domain, labelTask: w.GUID, labelUID: w.UID,
		labelAttempt: onlyAttempt}
}

func batchLabels(r worker.Run, w *BatchWork) executor.Labels {
	domain, job := batch.SplitName(r.Work.Job)
	return executor.Labels{labelKind: kindBatch, labelDomain: domain, labelJob: job, labelJobUID: w.JobUID,
		labelNode: r.Work.Node, labelInvocation: r.Invocation.String(), labelAttempt: w.Attempt}
}

// stamp adds for which store the work is started.
func stamp(l executor.Labels, cluster fence.Cluster, epoch int64) executor.Labels {
	l[labelCluster], l[labelEpoch] = string(cluster), strconv.FormatInt(epoch, 10)
	return l
}

// ofOther reports whether work was started for another cluster than that of the cell.
func ofOther(l executor.Labels, own fence.Cluster) bool {
	of := l[labelCluster]
	return of != "" && own != "" && of != string(own)
}

// ofOlder reports whether work was started for another store than the one of the term, or for the
// same store before its epoch began: a store that was restored from a backup has no later data.
func ofOlder(l executor.Labels, own fence.Cluster, term fence.Term) bool {
	epoch, err := strconv.ParseInt(l[labelEpoch], 10, 64)
	return ofOther(l, own) || err == nil && epoch < term.Epoch
}

// keyOf reads the identity of a service's instance off its labels.
func keyOf(l executor.Labels) (lrp.Key, lrp.ServiceKey, bool) {
	index, err := strconv.Atoi(l[labelIndex])
	key := lrp.Key{Process: l[labelProcess], Index: index}
	return key, lrp.ServiceKey{Domain: l[labelDomain], Name: l[labelService]}, err == nil && key.Process != "" &&
		l[labelInstance] != ""
}

// workOf reads the batch task off its labels.
func workOf(l executor.Labels) worker.Work {
	return worker.Work{Job: batch.FullName(l[labelDomain], l[labelJob]), Node: l[labelNode]}
}

// runOf reads the identity of a batch invocation off its labels.
func runOf(l executor.Labels) (worker.Run, bool) {
	inv, err := fence.ParseInvocation(l[labelInvocation])
	return worker.Run{Work: workOf(l), Invocation: inv}, err == nil && l[labelJob] != ""
}

// TaskContainer is the id of a task's container: a re-used guid is another task.
func TaskContainer(uid string) string { return "t-" + uid }

// BatchContainer is the id of a batch invocation's container.
func BatchContainer(inv fence.Invocation) string { return "b-" + inv.String() }

// TraceOf is the id by which all parts know the work of a container: the uid of a task, the id of an instance; empty
// for a batch task.
func TraceOf(l executor.Labels) string {
	switch l[labelKind] {
	case kindLRP:
		return l[labelInstance]
	case kindTask:
		return l[labelUID]
	}
	return ""
}
