package node

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cantina/api"
	"cantina/internal/run"
	pb "cantina/wire/cantinav1"
	"cantina/wire/cantinav1/cantinav1connect"
)

// TestABistroConfigurationIsFollowed by a server that leads: each change of the file is a change of its jobs, also
// two of the same second; a bad file changes nothing and is a warning of the status, until it is good again.
func TestABistroConfigurationIsFollowed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bistro.json")
	write := func(jobs string) {
		t.Helper()
		text := `{"bistro_settings": {"enabled": true, "nodes": {"levels": []}, "resources": {}}` + jobs + "}"
		if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	write(`, "bistro_job->a": {"owner": "o"}`)
	r := newRealWith(t, func(c *ServerConfig) {
		c.Bistro = BistroFile{Name: file, Domain: "dom", Command: []string{"sh", "-c", `echo done > "$2"`, "sh"}}
	})
	c := r.client()
	t.Cleanup(c.Close)
	until := func(want string) {
		t.Helper()
		got := ""
		for begun := time.Now(); time.Since(begun) < 30*time.Second; _ = run.Pause(t.Context(), 20*time.Millisecond) {
			l, err := api.Call(t.Context(), c, cantinav1connect.CantinaServiceClient.ListJobs,
				&pb.ListJobsRequest{Domain: "dom"})
			if err != nil {
				t.Fatal(err)
			}
			s, err := api.Call(t.Context(), c, cantinav1connect.CantinaServiceClient.GetStatus, &pb.GetStatusRequest{})
			if err != nil {
				t.Fatal(err)
			}
			got = ""
			for _, j := range l.Jobs {
				if j.State != "removed" {
					got += fmt.Sprintf("%s %s ", j.Name, j.State)
				}
			}
			if strings.Contains(strings.Join(s.Status.Warnings, " "), "bistro.json is not in force") {
				got += "warned"
			}
			if strings.TrimSpace(got) == want {
				return
			}
		}
		t.Fatalf("%q, want %q", got, want)
	}
	until("a done")
	write(`, "bistro_job->a": {"owner": "o"}, "bistro_job->b": {"owner": "o"}, "bistro_job->c": {}`)
	until("a done b done c invalid")
	write(`, "bistro_job->b": {"owner": "o"`)
	until("a done b done c invalid warned")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	until("a done b done c invalid warned")
	write(`, "bistro_job->b": {"owner": "o"}`)
	until("b done")
}
