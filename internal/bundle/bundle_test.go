package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	pb "cantina/wire/cantinav1"
)

func TestSecretsAreRemovedFromText(t *testing.T) {
	for _, s := range []string{
		"GET https://me:PLANTED@host/x", "https://host/x?sig=PLANTED&b=1",
		"Authorization: Bearer PLANTED-1234567",
		"DB_PASSWORD=PLANTED", `{"api_key": "PLANTED"}`, "--token=PLANTED", "token: PLANTED", "client-secret=PLANTED",
		"-----BEGIN EC PRIVATE KEY-----\nPLANTED\n-----END EC PRIVATE KEY-----",
		"amqp://PLANTED@q",
		"Basic UExBTlRFRA==PLANTED",
	} {
		if got := Text(s); strings.Contains(got, "PLANTED") || !strings.Contains(got, Removed) {
			t.Errorf("%s became %s", s, got)
		}
	}
	for _, s := range []string{"the cell waits for its leader", "http://10.0.0.1:7480/readyz",
		"time=2026-01-01 level=INFO",
		"cantina_tasks{state=\"pending\"} 4"} {
		if got := Text(s); got != s {
			t.Errorf("%s became %s", s, got)
		}
	}
}

func TestValuesOfWorkAreRemoved(t *testing.T) {
	const planted = "PLANTED"
	load := &pb.Workload{Env: []*pb.Variable{{Name: "NAME", Value: planted, RawValue: []byte(planted)}},
		Action: &pb.Action{Kind: &pb.Action_Run{Run: &pb.Run{Path: "/bin/x", Args: []string{"-p", planted},
			Env: []*pb.Variable{{Name: "OTHER", Value: planted}}}}},
		Labels: map[string]string{"app": "web"}}
	list := &pb.ListServicesResponse{Services: []*pb.Service{{Name: "web", Versions: []*pb.ServiceVersion{
		{Workload: load, Annotation: planted}}}}}
	got := protojson.Format(Scrub(list))
	if strings.Contains(got, planted) {
		t.Error(got)
	}
	for _, kept := range []string{"NAME", "OTHER", "/bin/x", "[2 removed]", "web"} {
		if !strings.Contains(got, kept) {
			t.Errorf("%s is missing: %s", kept, got)
		}
	}
	task := &pb.Task{Id: "t", Result: []byte(planted)}
	if got := Scrub(task); len(got.Result) > 0 || len(task.Result) == 0 {
		t.Errorf("%v, and the original %v", got, task)
	}
}

// files reads an archive.
func files(t *testing.T, archive []byte) map[string]string {
	t.Helper()
	zip, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	out, r := map[string]string{}, tar.NewReader(zip)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		out[h.Name] = string(text)
	}
}

func TestAnArchiveIsBoundedAndNamesItsFailures(t *testing.T) {
	var b bytes.Buffer
	w := New(&b, time.Unix(1, 0), "", "PLANTED")
	give := func(text string, err error) func(context.Context) ([]byte, error) {
		return func(context.Context) ([]byte, error) { return []byte(text), err }
	}
	w.Add(t.Context(), "a/../b c", give("has PLANTED inside", nil))
	w.Add(t.Context(), "down", give("", errors.New("no answer from https://x:PLANTED@y")))
	w.Add(t.Context(), "half", give("half", errors.New("cut")))
	w.Add(t.Context(), "profile", give("\xff\x00", nil))
	for range 9 {
		w.Add(t.Context(), "large", give(strings.Repeat("x", MaxPart+1), nil))
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got := files(t, b.Bytes())
	if got["cantina-debug/a/_/b_c"] != "has [removed] inside" || got["cantina-debug/half"] != "half" ||
		got["cantina-debug/profile"] != "\xff\x00" {
		t.Errorf("%.200q", got)
	}
	for _, line := range []string{"down: no answer from https://[removed]@y\n", "half: cut\n", "large: has 4194305 bytes",
		"large: the bundle has reached its largest size\n"} {
		if !strings.Contains(got["cantina-debug/errors.txt"], line) {
			t.Errorf("%q is missing in %s", line, got["cantina-debug/errors.txt"])
		}
	}
	if _, ok := got["cantina-debug/down"]; ok {
		t.Error("a part without contents has a file")
	}
}
