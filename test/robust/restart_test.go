package robust

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

// TestALoneDevStartsAtOnce: after any end, and also when its store counts as an older copy, dev starts new work. It
// does not wait for cells that cannot exist.
func TestALoneDevStartsAtOnce(t *testing.T) {
	data := tempDir(t)
	d := startDev(t, data).wait()
	if r := cli(t, d.Addr, "run", "--", "true"); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	again := func(name string) {
		t.Helper()
		began := time.Now()
		d = startDev(t, data).wait()
		r := cli(t, d.Addr, "run", "--timeout", "40s", "--", "true") // the wait would be 104 s
		if r.code != 0 {
			t.Fatalf("%s: %+v", name, r)
		}
		t.Logf("%s: new work has run %v after the start", name, time.Since(began).Round(time.Millisecond))
	}
	mark := func() {
		t.Helper()
		if r := cli(t, "", "store", "mark-restored", "--data", data); r.code != 0 {
			t.Fatalf("%+v", r)
		}
	}
	d.stop()
	again("stopped")
	d.kill()
	again("killed")
	d.stop()
	mark()
	again("stopped, its store marked as restored")
	d.stop()
	copied := tempDir(t)
	if out, err := exec.Command("cp", "-a", data+"/.", copied).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	if err := os.RemoveAll(data); err != nil {
		t.Fatal(err)
	}
	data = copied
	again("moved to another file system")
	d.stop()
}
