package api_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"cantina/api"
	pb "cantina/wire/cantinav1"
)

// TestConnectAndV1HaveOneNaming: the same call answers with the same JSON on both, byte for byte.
func TestConnectAndV1HaveOneNaming(t *testing.T) {
	w := newWorld(t)
	w.apply(t, demo)
	for path, call := range map[string][2]string{
		"/v1/services":                     {"ListServices", "{}"},
		"/v1/services/d/web":               {"GetService", `{"domain": "d", "name": "web"}`},
		"/v1/instances?limit=7":            {"ListInstances", `{"page": {"limit": 7}}`},
		"/v1/tasks":                        {"ListTasks", "{}"},
		"/v1/jobs":                         {"ListJobs", "{}"},
		"/v1/schedules":                    {"ListSchedules", "{}"},
		"/v1/cells":                        {"ListCells", "{}"},
		"/v1/status":                       {"GetStatus", "{}"},
		"/v1/explain/service/web?domain=d": {"Explain", `{"subject": {"kind": "service", "domain": "d", "name": "web"}}`},
	} {
		_, want := w.get(t, "GET", path, "", "")
		for _, kind := range []string{"application/json", "application/json; charset=utf-8"} {
			res, got := w.get(t, "POST", "/cantina.v1.CantinaService/"+call[0], kind, call[1])
			if res.StatusCode != 200 || got != strings.TrimSuffix(want, "\n") {
				t.Errorf("%s, %s: %d\n got %s\nwant %s", call[0], kind, res.StatusCode, got, want)
			}
		}
	}
	// The names that other clients of Connect send are understood.
	if res, got := w.get(t, "POST", "/cantina.v1.CantinaService/ScaleService", "application/json",
		`{"domain": "d", "name": "web", "instances": 2, "write": {"ifMatch": "999999"}}`); res.StatusCode == 200 {
		t.Errorf("ifMatch is left out: %s", got)
	}
}

// TestEveryFieldHasTheNameOfTheDefinition walks all messages of all calls.
func TestEveryFieldHasTheNameOfTheDefinition(t *testing.T) {
	seen := map[protoreflect.FullName]bool{}
	var look func(m protoreflect.MessageDescriptor)
	look = func(m protoreflect.MessageDescriptor) {
		if seen[m.FullName()] || strings.HasPrefix(string(m.FullName()), "google.") {
			return
		}
		seen[m.FullName()] = true
		var doc map[string]any
		if err := json.Unmarshal(api.JSON(dynamicpb.NewMessage(m)), &doc); err != nil {
			t.Fatal(err)
		}
		for i := range m.Fields().Len() {
			f := m.Fields().Get(i)
			name := string(f.Name())
			if _, ok := doc[name]; !ok && !f.HasOptionalKeyword() && f.ContainingOneof() == nil {
				t.Errorf("%s prints %v, not %s", m.FullName(), slices.Sorted(maps.Keys(doc)), name)
			}
			if name != strings.ToLower(name) {
				t.Errorf("%s is not in lower case", f.FullName())
			}
			if f.Message() != nil {
				look(f.Message())
			}
		}
	}
	services := pb.File_cantina_v1_api_proto.Services()
	for i := range services.Len() {
		for j := range services.Get(i).Methods().Len() {
			m := services.Get(i).Methods().Get(j)
			look(m.Input())
			look(m.Output())
		}
	}
	if len(seen) < 100 {
		t.Error(fmt.Sprint("only ", len(seen), " messages: the walk is broken"))
	}
}
