package robust

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestCorruptRow damages a row in the store between two starts of the server: the
// start does not stop, the row counts as existing, its container is left alone, and
// an operator sees it.
func TestCorruptRow(t *testing.T) {
	w := newWitness(t)
	c := startCluster(t, patient, 1, 1)
	apply(t, c.addr(),
		fmt.Sprintf("domain: d\nservices:\n  hurt: {command: [%[1]s, hurt, sleep, '1000'], stop_grace: 1s}\n"+
			"  well: {command: [%[1]s, well, sleep, '1000'], stop_grace: 1s}\n", w.command()))
	must(t, c.addr(), "wait", "hurt", "well", "--timeout", "100s")
	c.servers["s1"].kill()
	row := c.damage("hurt")
	c.startServer("s1").wait()
	must(t, c.addr(), "wait", "well", "--timeout", "100s")
	if out := must(t, c.addr(), "run", "--", "echo", "alive"); out != "alive\n" {
		t.Errorf("a task printed %q", out)
	}
	out := must(t, c.addr(), "store", "quarantine", "show", "-o", "name")
	if !strings.Contains(row, strings.TrimSpace(out)) && !strings.Contains(out, row) || strings.TrimSpace(out) == "" {
		t.Errorf("quarantine shows %q, want %s", out, row)
	}
	if s := c.status(); s.Quarantined == 0 {
		t.Errorf("status does not report the damaged row")
	}
	// It cannot be restored as it is; once an operator has repaired it, it can.
	name := strings.TrimSpace(out)
	if r := cli(t, c.addr(), "store", "quarantine", "restore", name); r.code == 0 || !strings.Contains(r.err, name) {
		t.Errorf("restored a damaged row: code %d, %q", r.code, r.err)
	} else {
		t.Log(r.err)
	}
	c.flip(row)
	must(t, c.addr(), "store", "quarantine", "restore", name)
	must(t, c.addr(), "wait", "hurt", "--timeout", "100s")
	if s := c.status(); s.Quarantined != 0 {
		t.Errorf("%d rows are quarantined after the repair", s.Quarantined)
	}
	for id, list := range w.begun() {
		if len(list) != 1 {
			t.Errorf("%s was started %d times", id, len(list))
		}
	}
	c.cells["c1"].stop()
	if text := c.cells["c1"].log.tail(100); strings.Contains(text, "exiting without deregistration") {
		t.Errorf("the damaged row kept the cell from its deregistration:\n%s", text)
	}
}

// etcd is a client of the cluster's store, for a while; done ends both.
func (c *cluster) etcd() (client *clientv3.Client, ctx context.Context, done func()) {
	c.t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{c.endpoint}})
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	return client, ctx, func() {
		cancel()
		client.Close()
	}
}

// damage changes a byte in the middle of a row of the instance of a service.
func (c *cluster) damage(service string) string {
	c.t.Helper()
	client, ctx, done := c.etcd()
	defer done()
	all, err := client.Get(ctx, "", clientv3.WithPrefix())
	if err != nil {
		c.t.Fatal(err)
	}
	var keys []string
	for _, kv := range all.Kvs {
		key := string(kv.Key)
		keys = append(keys, key)
		if !strings.Contains(key, "actual") && !strings.Contains(key, "lrp") || !strings.Contains(string(kv.Value), service) {
			continue
		}
		c.flip(key)
		return key
	}
	c.t.Fatalf("no row of an instance of %s among %q", service, keys)
	return ""
}

// flip damages a row, or repairs it again.
func (c *cluster) flip(key string) {
	c.t.Helper()
	client, ctx, done := c.etcd()
	defer done()
	got, err := client.Get(ctx, key)
	if err != nil || len(got.Kvs) != 1 {
		c.t.Fatalf("row %s: %d rows, %v", key, len(got.Kvs), err)
	}
	value := got.Kvs[0].Value
	value[len(value)/2] ^= 0x55
	if _, err := client.Put(ctx, key, string(value)); err != nil {
		c.t.Fatal(err)
	}
}

// TestFullDisk fills the disk of a cell: refused work gives the reason, running work goes on, and when there is
// room again all is well.
func TestFullDisk(t *testing.T) {
	disk := tempDir(t)
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=24m"); err != nil {
		t.Skipf("a small disk cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(disk, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	c := startCluster(t, patient, 1, 0)
	cell := start(t, "c1", append([]string{"cell", "--name", "c1", "--data", filepath.Join(disk, "c1"), "--servers",
		c.addr()}, patient...)...)
	cell.wait()
	c.session("c1", "HEALTHY")
	apply(t, c.addr(),
		"domain: d\nservices: {web: {command: [sh, -c, 'while sleep 0.2; do echo line; done'], stop_grace: 1s}}\n")
	must(t, c.addr(), "wait", "web", "--timeout", "100s")
	fill(t, filepath.Join(disk, "ballast"))
	r := cli(t, c.addr(), "run", "--client-exit-code", "--timeout", "30s", "--", "sh", "-c",
		"head -c 100000 /dev/zero >file; head -c 3000000 /dev/zero")
	t.Logf("on a full disk: exit code %d, %.300q", r.code, r.err)
	select {
	case <-cell.ended:
		t.Fatalf("the cell ended: %v", cell.err)
	default:
	}
	if err := os.Remove(filepath.Join(disk, "ballast")); err != nil {
		t.Fatal(err)
	}
	c.session("c1", "HEALTHY")
	if out := must(t, c.addr(), "run", "--timeout", "30s", "--", "echo", "alive"); out != "alive\n" {
		t.Errorf("with room again, a task printed %q", out)
	}
	must(t, c.addr(), "wait", "web", "--timeout", "100s")
	must(t, c.addr(), "stop", "web")
	must(t, c.addr(), "wait", "web", "--for", "stopped", "--timeout", "100s")
	cell.stop()
}

// fill writes until the disk is full.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n, err := io.CopyBuffer(f, zeros{}, make([]byte, 4096))
	if err == nil || n == 0 {
		t.Fatalf("the disk took %d bytes: %v", n, err)
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }
