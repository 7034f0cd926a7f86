package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"cantina/fault"
	"cantina/internal/guard"
	"cantina/internal/text"
	"cantina/spec"
	pb "cantina/wire/cantinav1"
)

// v1 serves the same calls with paths, query parameters and problem+json.
func (s *Server) v1(c *calls) *guard.Mux {
	mux := guard.NewMux()
	for _, r := range routes(c) {
		mux.HandleFunc(r.pattern, func(w http.ResponseWriter, q *http.Request) {
			defer func() {
				if p := recover(); p != nil {
					s.problem(w, q, s.recovered(p))
				}
			}()
			if err := r.call.serve(w, q.WithContext(withHeaders(q.Context(), q.Header))); err != nil {
				s.problem(w, q, err)
			}
		})
	}
	mux.HandleFunc("GET /v1/events", s.v1Events)
	mux.HandleFunc("POST /v1/bistro", s.v1Monitor)
	mux.HandleFunc("GET /v1/output", func(w http.ResponseWriter, q *http.Request) { s.v1Output(w, q, c) })
	mux.HandleFunc("GET /v1/schema/cantina.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/schema+json")
		_, _ = w.Write(spec.Schema())
	})
	description := sync.OnceValue(OpenAPI)
	mux.HandleFunc("GET /v1/openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/vnd.oai.openapi+json;version=3.1")
		_, _ = w.Write(description())
	})
	mux.HandleFunc("/v1/", func(w http.ResponseWriter, q *http.Request) {
		s.problem(w, q, &FieldError{Err: fmt.Errorf("%s %s: %w", q.Method, text.Shorten(q.URL.Path, 60), fault.ErrNotFound),
			Field: "path", Hint: "see docs/api.md for the paths"})
	})
	return mux
}

// route is one path of /v1.
type route struct {
	pattern string
	call    unary
}

// unary is one call of the definition, and the messages that it takes and returns.
type unary struct {
	serve    func(http.ResponseWriter, *http.Request) error
	in, out  protoreflect.MessageDescriptor
	takeBody bool
}

// routes is the table of /v1: a path for each call. {…} in a path and parameters
// of the query are fields of the request.
func routes(c *calls) []route {
	return []route{
		{"POST /v1/plan", call(c.Plan, planBody)},
		{"POST /v1/apply", call(c.Apply, applyBody)},
		{"GET /v1/services", call(c.ListServices, nil)},
		{"GET /v1/services/{domain}/{name}", call(c.GetService, nil)},
		{"PUT /v1/services/{domain}/{name}/instances", call(c.ScaleService, jsonBody)},
		{"POST /v1/services/{domain}/{name}/restart", call(c.RestartService, jsonBody)},
		{"DELETE /v1/services/{domain}/{name}", call(c.RemoveService, nil)},
		{"GET /v1/instances", call(c.ListInstances, nil)},
		{"GET /v1/tasks", call(c.ListTasks, nil)},
		{"POST /v1/tasks", call(c.RunTask, jsonBody)},
		{"GET /v1/tasks/{id}", call(c.GetTask, nil)},
		{"POST /v1/tasks/{id}/cancel", call(c.CancelTask, jsonBody)},
		{"POST /v1/tasks/{id}/resolve", call(c.ResolveTask, jsonBody)},
		{"POST /v1/tasks/{id}/rerun", call(c.RerunTask, jsonBody)},
		{"DELETE /v1/tasks/{id}", call(c.DeleteTask, nil)},
		{"GET /v1/jobs", call(c.ListJobs, nil)},
		{"GET /v1/jobs/{domain}/{name}", call(c.GetJob, nil)},
		{"GET /v1/jobs/{domain}/{job}/nodes", call(c.ListNodes, nil)},
		{"GET /v1/jobs/{domain}/{job}/groups", call(c.ListGroups, nil)},
		{"GET /v1/jobs/{domain}/{job}/results", call(c.ListResults, nil)},
		{"PUT /v1/jobs/{domain}/{name}/paused", call(c.PauseJob, jsonBody)},
		{"POST /v1/jobs/{domain}/{name}/retry", call(c.RetryJob, jsonBody)},
		{"POST /v1/jobs/{domain}/{name}/kill", call(c.KillJob, jsonBody)},
		{"DELETE /v1/jobs/{domain}/{name}", call(c.RemoveJob, nil)},
		{"GET /v1/schedules", call(c.ListSchedules, nil)},
		{"GET /v1/schedules/{domain}/{name}", call(c.GetSchedule, nil)},
		{"GET /v1/schedules/{domain}/{name}/missed", call(c.ListMissed, nil)},
		{"PUT /v1/schedules/{domain}/{name}/paused", call(c.PauseSchedule, jsonBody)},
		{"POST /v1/schedules/{domain}/{name}/run", call(c.RunSchedule, jsonBody)},
		{"POST /v1/schedules/{domain}/{name}/backfill", call(c.BackfillSchedule, jsonBody)},
		{"POST /v1/schedules/{domain}/{name}/reset", call(c.ResetSchedule, jsonBody)},
		{"DELETE /v1/schedules/{domain}/{name}", call(c.RemoveSchedule, nil)},
		{"GET /v1/cells", call(c.ListCells, nil)},
		{"GET /v1/cells/{name}", call(c.GetCell, nil)},
		{"POST /v1/cells/forget", call(c.ForgetCell, jsonBody)},
		{"POST /v1/cells/{name}/adopt", call(c.AdoptCell, jsonBody)},
		{"POST /v1/cells/{name}/discard-unknown", call(c.DiscardUnknown, jsonBody)},
		{"PUT /v1/cells/{name}/drain", call(c.DrainCell, jsonBody)},
		{"DELETE /v1/cells/{name}/drain", call(c.UndrainCell, nil)},
		{"GET /v1/rebalance", call(c.planRebalance, nil)},
		{"POST /v1/rebalance", call(c.Rebalance, jsonBody)},
		{"GET /v1/usage", call(c.GetUsage, nil)},
		{"GET /v1/status", call(c.GetStatus, nil)},
		{"POST /v1/browser-keys", call(c.CreateBrowserKey, jsonBody)},
		{"POST /v1/wait/end", call(c.EndWait, jsonBody)},
		{"GET /v1/quarantine", call(c.ListQuarantine, nil)},
		{"POST /v1/quarantine/release", call(c.ReleaseQuarantined, jsonBody)},
		{"GET /v1/members", call(c.ListMembers, nil)},
		{"POST /v1/members", call(c.AddMember, jsonBody)},
		{"DELETE /v1/members/{name}", call(c.RemoveMember, nil)},
		{"GET /v1/explain/{kind}/{name}", call(c.Explain, nil)},
		{"POST /v1/stops/shorten", call(c.ShortenStop, jsonBody)},
	}
}

// body reads the body of a request into its message.
type body func(r *http.Request, m proto.Message) error

// call serves one unary call: body, then query, then path into the request; the
// answer as JSON.
func call[Q, A any](do func(context.Context, *connect.Request[Q]) (*connect.Response[A], error),
	read body) unary {
	serve := func(w http.ResponseWriter, r *http.Request) error {
		q := new(Q)
		m := any(q).(proto.Message)
		if read != nil {
			if err := read(r, m); err != nil {
				return err
			}
		}
		fields, err := parameters(r, m)
		if err != nil {
			return err
		}
		got, err := do(r.Context(), connect.NewRequest(q))
		if err != nil {
			return err
		}
		text, err := selectFields(JSON(any(got.Msg).(proto.Message)), fields)
		if err != nil {
			return err
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		if tag := revisionOf(any(got.Msg).(proto.Message)); tag != 0 {
			w.Header().Set("ETag", strconv.Quote(strconv.FormatInt(tag, 10)))
		}
		_, _ = w.Write(append(text, '\n'))
		return nil
	}
	return unary{serve: serve, in: any(new(Q)).(proto.Message).ProtoReflect().Descriptor(),
		out: any(new(A)).(proto.Message).ProtoReflect().Descriptor(), takeBody: read != nil}
}

// revisionOf returns the revision of the resource, or the list, in a message.
func revisionOf(m proto.Message) int64 {
	r := m.ProtoReflect()
	fields := r.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if f.Message() == nil || f.IsList() || f.IsMap() || !r.Has(f) {
			continue
		}
		if rev := f.Message().Fields().ByName("revision"); rev != nil {
			return r.Get(f).Message().Get(rev).Int()
		}
	}
	return 0
}

func jsonBody(r *http.Request, m proto.Message) error {
	body, err := readBody(r)
	if err != nil || len(body) == 0 {
		return err
	}
	if kind := mediaType(r); kind != "application/json" {
		allowed := "application/json"
		switch m.(type) {
		case *pb.PlanRequest, *pb.ApplyRequest:
			allowed = "application/yaml or application/json"
		}
		return invalid("Content-Type", "must be %s, not %q", allowed, text.Shorten(kind, 60))
	}
	if err := protojson.Unmarshal(body, m); err != nil {
		return &FieldError{Err: fmt.Errorf("body: %s: %w", text.Clean(strings.ReplaceAll(err.Error(), "\u00a0", " ")),
			fault.ErrInvalid), Field: "body"}
	}
	return nil
}

func readBody(r *http.Request) ([]byte, error) {
	text, err := io.ReadAll(r.Body)
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return nil, fmt.Errorf("body of more than %d bytes: %w", large.Limit, fault.ErrTooLarge)
	}
	if err != nil {
		return nil, invalid("body", "cannot be parsed: %v", err)
	}
	return text, nil
}

func mediaType(r *http.Request) string {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return r.Header.Get("Content-Type")
	}
	return kind
}

func isYAML(kind string) bool {
	return kind == "application/yaml" || kind == "application/x-yaml" || kind == "text/yaml"
}

// planBody and applyBody take a spec file itself, or the JSON of the request.
func planBody(r *http.Request, m proto.Message) error {
	if !isYAML(mediaType(r)) {
		return jsonBody(r, m)
	}
	text, err := readBody(r)
	m.(*pb.PlanRequest).Files = []*pb.SpecFile{{Name: "body", Content: text}}
	return err
}

func applyBody(r *http.Request, m proto.Message) error {
	if !isYAML(mediaType(r)) {
		return jsonBody(r, m)
	}
	text, err := readBody(r)
	m.(*pb.ApplyRequest).Files = []*pb.SpecFile{{Name: "body", Content: text}}
	return err
}

// selectFields keeps the named fields of a resource, or of each item of a list, in a response.
func selectFields(text []byte, fields []string) ([]byte, error) {
	if len(fields) == 0 {
		return text, nil
	}
	var doc map[string]json.RawMessage
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	for key, raw := range doc {
		if key == "listing" {
			continue
		}
		var list []map[string]json.RawMessage
		var one map[string]json.RawMessage
		switch {
		case json.Unmarshal(raw, &list) == nil:
			for _, item := range list {
				keep(item, fields)
			}
			doc[key], _ = json.Marshal(list)
		case json.Unmarshal(raw, &one) == nil && one != nil:
			keep(one, fields)
			doc[key], _ = json.Marshal(one)
		}
	}
	return json.Marshal(doc)
}

func keep(item map[string]json.RawMessage, fields []string) {
	for k := range item {
		wanted := false
		for _, f := range fields {
			wanted = wanted || f == k
		}
		if !wanted {
			delete(item, k)
		}
	}
}
