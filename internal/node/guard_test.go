package node

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"cantina/internal/guard"
	"cantina/internal/link"
	"cantina/internal/run"
	"cantina/leader"
	pb "cantina/wire/cantinav1"
	"cantina/worker"
)

// paths lists every served path: the registered ones, and each call of Connect's services.
func paths(t *testing.T, patterns []string) (methods, all []string) {
	t.Helper()
	calls := map[string][]string{}
	protoregistry.GlobalFiles.RangeFilesByPackage("cantina.v1", func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			s := f.Services().Get(i)
			for j := range s.Methods().Len() {
				prefix := "/" + string(s.FullName()) + "/"
				calls[prefix] = append(calls[prefix], prefix+string(s.Methods().Get(j).Name()))
			}
		}
		return true
	})
	for _, p := range patterns {
		method, path, ok := strings.Cut(p, " ")
		if !ok {
			method, path = http.MethodPost, p
		}
		for strings.Contains(path, "{") {
			path = path[:strings.Index(path, "{")] + "x" + path[strings.Index(path, "}")+1:]
		}
		if calls[path] == nil {
			methods, all = append(methods, method), append(all, path)
		}
		for _, c := range calls[path] {
			methods, all = append(methods, http.MethodPost, http.MethodGet), append(all, c, c)
		}
		delete(calls, path)
	}
	for service := range calls {
		t.Errorf("no listener serves %s", service)
	}
	return methods, all
}

// TestNoPathIsReachedByAForeignPage: on every kind of listener, at every served path, any request that a web page
// can make a browser send is refused. No handler behind the guard is called.
func TestNoPathIsReachedByAForeignPage(t *testing.T) {
	token := guard.NewToken("0123456789abcdef")
	s, err := OpenServer(t.Context(), ServerConfig{Dir: t.TempDir(),
		Listen: []string{"127.0.0.1:0", "unix:" + t.TempDir() + "/s.sock", "0.0.0.0:0"}, Insecure: true, Token: token,
		Settings: leader.Settings{Name: "s", Timeouts: worker.DefaultTimeouts(), Clock: run.Kernel(),
			Log: slog.New(slog.NewTextHandler(t.Output(), nil))}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	mux := s.handler()
	cells := []string{"/" + string(pb.File_cantina_v1_cell_proto.Services().ByName("CellService").FullName()) + "/"}
	methods, all := paths(t, append(append(mux.Patterns(), s.api.Mux().Patterns()...), cells...))
	if len(all) < 100 {
		t.Errorf("only %d paths", len(all))
	}
	reached := false
	behind := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { reached = true })
	for _, d := range s.doors {
		h := d.Handler(behind)
		for i, path := range all {
			for name, c := range map[string]struct {
				host, key, value string
				status           int
			}{
				"the owner":      {"127.0.0.1:1", "", "", 200},
				"a rebound name": {"evil.example", "", "", 403},
				"its port":       {"evil.example:7480", "", "", 403},
				"Origin":         {"127.0.0.1:1", "Origin", "http://evil.example", 403},
				"null":           {"127.0.0.1:1", "Origin", "null", 403},
				"cross-site":     {"127.0.0.1:1", "Sec-Fetch-Site", "cross-site", 403},
				"same-site":      {"127.0.0.1:1", "Sec-Fetch-Site", "same-site", 403},
			} {
				reached = false
				q := httptest.NewRequestWithContext(t.Context(), methods[i], path, strings.NewReader(`{"query":{},"limit":5}`))
				q.Host = c.host
				token.Sign(q.Header)
				if c.key != "" {
					q.Header.Set(c.key, c.value)
				}
				w := httptest.NewRecorder()
				h.ServeHTTP(w, q)
				if w.Code != c.status || reached != (c.status == 200) {
					t.Errorf("%s %s %s, %s: %d %s", d.Address(), methods[i], path, name, w.Code, w.Body)
				}
			}
			q := httptest.NewRequestWithContext(t.Context(), methods[i], path, nil)
			q.Host = "127.0.0.1:1"
			w := httptest.NewRecorder()
			h.ServeHTTP(w, q)
			free := !strings.HasPrefix(d.Address(), "127.") || methods[i] == "GET" &&
				(slices.Contains([]string{"/health", "/healthz", "/readyz"}, path) || path == guard.PagePath)
			if want := map[bool]int{true: 200, false: 401}[free]; w.Code != want {
				t.Errorf("%s %s %s without a token: %d, want %d", d.Address(), methods[i], path, w.Code, want)
			}
		}
	}
}

// TestACellsListenerHasTheGuardToo: the very request that read all output of a cell from a page.
func TestACellsListenerHasTheGuardToo(t *testing.T) {
	cfg := CellConfig{Name: "c", Listen: "127.0.0.1:0", Token: guard.NewToken("0123456789abcdef")}
	d, err := cfg.listener().Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	h := d.Handler(link.NewCellHandler(simulatedCell{}))
	for host, want := range map[string]int{"rebound.example:7481": 403, "127.0.0.1:1": 401} {
		q := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/cantina.v1.CellService/ReadLogs",
			strings.NewReader(`{"query":{},"limit":5}`))
		q.Host = host
		q.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, q); w.Code != want {
			t.Errorf("%s: %d %s", host, w.Code, w.Body)
		}
	}
}
