package link

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"cantina/cell"
	"cantina/fence"
	"cantina/lrp"
	pb "cantina/wire/cantinav1"
	"cantina/worker"
)

// TestEveryCallAtACellNamesItsCallee: every call of the definition has a Callee. A call that names another cell, or
// none, is refused before any action. A call that the session does not check itself is also refused for another
// process or an older term.
func TestEveryCallAtACellNamesItsCallee(t *testing.T) {
	a := &witness{agent: agent{}}
	s := httptest.NewUnstartedServer(NewCellHandler(a))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	right := fmt.Sprintf(`{"cell":"c1","cluster":"mine","proc":"p1","term":{"epoch":%d,"revision":%d}}`, term.Epoch,
		term.Revision)
	methods := pb.File_cantina_v1_cell_proto.Services().ByName("CellService").Methods()
	if methods.Len() != len(ofMachine)+4 {
		t.Errorf("%d calls, of which the session checks %d: is it so for the new one?", methods.Len(), len(ofMachine))
	}
	for i := range methods.Len() {
		m := methods.Get(i)
		path := "/cantina.v1.CellService/" + string(m.Name())
		for name, to := range map[string]string{
			"nobody":                 `{}`,
			"no process":             `{"cell":"c1","cluster":"mine"}`,
			"no cell":                strings.Replace(right, "c1", "", 1),
			"another cluster":        strings.Replace(right, "mine", "other", 1),
			"another cell":           strings.Replace(right, "c1", "c2", 1),
			"another process":        strings.Replace(right, "p1", "p2", 1),
			"an older term":          strings.Replace(right, `"revision":7`, `"revision":6`, 1),
			"no term":                `{"cell":"c1","cluster":"mine","proc":"p1"}`,
			"whom it is, so it goes": right,
		} {
			a.asked = ""
			answer := send(t, s, m, path, to)
			machine := ofMachine[path] && (name == "another process" || name == "an older term" || name == "no term")
			switch {
			case to == right && a.asked == "" || machine && strings.Contains(answer, "another"):
				t.Errorf("%s for %s: not called: %s", m.Name(), name, answer)
			case to != right && !machine && a.asked != "":
				t.Errorf("%s for %s: %s was called", m.Name(), name, a.asked)
			}
		}
	}
}

// send makes one call with the Connect protocol and returns the answer.
func send(t *testing.T, s *httptest.Server, m protoreflect.MethodDescriptor, path, to string) string {
	t.Helper()
	body := `{"to":` + to + `,"key":{"process":"x","domain":"d"},"instance":"i","uid":"u"}`
	if m.IsStreamingClient() {
		body = `{"start":{"to":` + to + `}}`
	}
	kind := "application/json"
	if m.IsStreamingServer() {
		kind = "application/connect+json"
		body = string(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body)))) + body
	}
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+path, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Content-Type", kind)
	r, err := s.Client().Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(r.StatusCode, " ", string(text))
}

// witness is a cell that records its calls.
type witness struct {
	agent
	asked string
}

func (w *witness) GetRunningTasks(context.Context, worker.ReportRequest) (worker.Report, error) {
	w.asked = "GetRunningTasks"
	return worker.Report{}, nil
}

func (w *witness) RunTasks(context.Context, []cell.RunItem) ([]worker.RunAnswer, error) {
	w.asked = "RunTasks"
	return nil, nil
}

func (w *witness) NotifyIfTasksNotRunning(context.Context, worker.Notify) (worker.NotifyAnswer, error) {
	w.asked = "NotifyIfTasksNotRunning"
	return worker.NotifyAnswer{}, nil
}

func (w *witness) KillTask(context.Context, []worker.KillTask) ([]bool, error) {
	w.asked = "KillTask"
	return nil, nil
}

func (w *witness) RequestSuicide(context.Context, worker.Suicide) error {
	w.asked = "RequestSuicide"
	return nil
}

func (w *witness) Perform(context.Context, cell.Work) ([]cell.Refusal, error) {
	w.asked = "Perform"
	return nil, nil
}

func (w *witness) StopWork(context.Context, fence.Term, worker.Proc, cell.Stops) error {
	w.asked = "StopWork"
	return nil
}

func (w *witness) SignalInstance(context.Context, fence.Term, worker.Proc, lrp.Key, string, int) error {
	w.asked = "SignalInstance"
	return nil
}

func (w *witness) ShortenGrace(context.Context, fence.Term, worker.Proc, cell.Shorten) (int, error) {
	w.asked = "ShortenGrace"
	return 0, nil
}

func (w *witness) Drain(context.Context, fence.Term, worker.Proc, cell.Drain) error {
	w.asked = "Drain"
	return nil
}

func (w *witness) ReadLogs(context.Context, *pb.ReadLogsRequest) (*pb.ReadLogsResponse, error) {
	w.asked = "ReadLogs"
	return &pb.ReadLogsResponse{}, nil
}

func (w *witness) ReadUsage(context.Context, *pb.ReadUsageRequest) (*pb.ReadUsageResponse, error) {
	w.asked = "ReadUsage"
	return &pb.ReadUsageResponse{}, nil
}

func (w *witness) FollowLogs(context.Context, *pb.FollowLogsRequest, func(*pb.FollowLogsResponse) error) error {
	w.asked = "FollowLogs"
	return nil
}

func (w *witness) Exec(context.Context, *pb.CellExecStart, func() (*pb.ExecInput, error),
	func(*pb.ExecResponse) error) error {
	w.asked = "Exec"
	return cell.ErrUnknownContainer
}
