package worker

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"cantina/fence"
	"cantina/workerset"
)

// fields are those of all that a state is made of: keyed stand in the key, others do not, for the
// reason that is written.
type fields struct{ keyed, others, why string }

// inKey must have each field of each type; a new one fails TestKeyHasEveryField until a developer has classified
// it.
var inKey = map[reflect.Type]fields{
	reflect.TypeFor[node](): {"term leader cells alive dead paused flight store budget",
		"now own out procs path late beats err",
		"times are written from now; who owns what, names, and what lasts only for one step"},
	reflect.TypeFor[searchStore](): {"members list last", "", ""},
	reflect.TypeFor[budget](): {"lose twice late calls restart pause time kill", "tasks",
		"the same all through a search"},
	reflect.TypeFor[Leader](): {"roster members batch waiting", "sessions adopting",
		"has no state with this witness; one cluster"},
	reflect.TypeFor[term](): {"cfg deposed", "t seq rows effects lastTick stalled refused",
		"configuration; commits are done at once and the key refuses a state with any open; one cluster"},
	reflect.TypeFor[roster](): {"term procs holders gone silent", "order dirs goneList", "lists of what stands in procs"},
	reflect.TypeFor[members](): {"list", "roster stored committed writes deaths reportOutput",
		"the leader's; commits are done at once"},
	reflect.TypeFor[batch](): {"model", "roster members sessions counter adopted",
		"the leader's; only the order of counters counts"},
	reflect.TypeFor[waiting](): {"wait stale restored", "roster members sessions batch alone lapse t0 jobs nodes",
		"the leader's; of another kind of cluster; configuration; t0 in lapseEnd"},
	reflect.TypeFor[process](): {"row member durable promised unsaid health blocked connected reported remains " +
		"displaced dead period beat since credited credit seq unsure open probe kills",
		"deathOutput work alive born unheard",
		"commits are done at once; entries name their process; the last only serves services and tasks"},
	reflect.TypeFor[Member](): {"Proc Promise Displaced", "Cell DirID Started Boot",
		"the process id stands for them; one boot"},
	reflect.TypeFor[Health](): {"State BecameUnhealthy LastProbe LastBeat", "BecameHealthy HasBeenHealthy",
		"never later than the limits of what made it so; of the worker set only"},
	reflect.TypeFor[unsureList](): {"runs next pause asked", "", ""},
	reflect.TypeFor[probes]():     {"due open failing out", "sent reason", "a number; words"},
	reflect.TypeFor[openProbe]():  {"number sent", "", ""},
	reflect.TypeFor[model]():      {"byRun late", "byWork", "the same entries"},
	reflect.TypeFor[entry]():      {"run on sure ending end kill acks", "killAt", "nobody kills here"},
	reflect.TypeFor[Cell](): {"proc gone term health seq resolved seen eligible credited reported epoch setID deadline " +
		"promise spent work beats outbox leaving said renewing renewBy asked ended",
		"cfg t started predecessor back backBy effects cluster moving",
		"configuration; the process id stands for the place on the dirID; nothing outlives a process here; one cluster"},
	reflect.TypeFor[cellWork](): {"held byWork", "unacked bound lasting kept",
		"held has it; nothing outlives a process here"},
	reflect.TypeFor[cellBeats](): {"answered sent", "number next hurry", "no beat but those of moves arrives"},
	reflect.TypeFor[outbox]():    {"notes", "probing probeBeat", "probes end at once"},
	reflect.TypeFor[held]():      {"run ended adopted sent", "status", "always the same here"},
	reflect.TypeFor[note]():      {"item beat sent", "", ""},
	reflect.TypeFor[sentBeat]():  {"number at", "", ""},
	reflect.TypeFor[HeartbeatAnswer](): {"Term Proc Beat Verdict State Reported Eligible Credit Promise Resolved SetID",
		"Protocol Cluster Reason Timeouts", "always the same; words"},
	reflect.TypeFor[RunTask]():      {"Term Proc Run Seq", "Probe Beat", "probes do not fly"},
	reflect.TypeFor[RunAnswer]():    {"Term Proc Run Result", "Reason", "words"},
	reflect.TypeFor[Notify]():       {"Term Proc Seq Runs", "", ""},
	reflect.TypeFor[NotifyAnswer](): {"Term Proc Seq OK", "", ""},
	reflect.TypeFor[Suicide]():      {"Term Proc All", "", ""},
	reflect.TypeFor[StatusAnswer](): {"Term Proc Kind Run OK", "Probe", "probes do not fly"},
	reflect.TypeFor[UpdateStatus](): {"Term Proc Items", "Cluster Cell", "one cluster; the process id stands for it"},
	reflect.TypeFor[StatusItem]():   {"Kind Run Probe", "Status OK Reason", "always the same here"},
	reflect.TypeFor[Report](): {"Term Proc PredecessorsGone Held", "Predecessor Alive",
		"the leader does not read it; no services and tasks here"},
	reflect.TypeFor[Held]():             {"Run Ended", "Adopted", "the leader does not read it"},
	reflect.TypeFor[Run]():              {"Work Invocation", "", ""},
	reflect.TypeFor[Work]():             {"Node", "Job", "one job"},
	reflect.TypeFor[fence.Term]():       {"Revision", "Epoch", "one epoch"},
	reflect.TypeFor[fence.Invocation](): {"Term Counter", "", ""},
	reflect.TypeFor[workerset.ID]():     {"Leader Version Hash", "", ""},
}

// TestKeyHasEveryField: no field of a machine or a message is forgotten in the key.
func TestKeyHasEveryField(t *testing.T) {
	for typ, f := range inKey {
		var have []string
		for i := range typ.NumField() {
			have = append(have, typ.Field(i).Name)
		}
		want := append(strings.Fields(f.keyed), strings.Fields(f.others)...)
		for _, n := range have {
			if !slices.Contains(want, n) {
				t.Errorf("%v.%s is new: state in inKey whether the key of the search has it", typ, n)
			}
		}
		for _, n := range want {
			if !slices.Contains(have, n) {
				t.Errorf("%v.%s is no field any more", typ, n)
			}
		}
	}
}
