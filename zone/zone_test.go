package zone

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func newLoader(t testing.TB, dirs ...string) *Loader {
	t.Helper()
	if dirs == nil {
		dirs = []string{}
	}
	l, err := New(Options{Dirs: dirs, Localtime: filepath.Join(t.TempDir(), "localtime")})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func offsetAt(t *testing.T, z Zone, unix int64) string {
	t.Helper()
	return time.Unix(unix, 0).In(z.Location).Format("-07:00 MST")
}

func TestB13ZonesWithoutAnyFiles(t *testing.T) {
	l := newLoader(t) // as in an empty root
	z, err := l.Load("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	if got := offsetAt(t, z, 1720000000); got != "+02:00 CEST" || !strings.HasPrefix(z.Origin, "embedded 20") {
		t.Errorf("Berlin in summer is %s from %s", got, z.Origin)
	}
	for name, want := range map[string]string{
		"Europe/Berln":     `unknown time zone "Europe/Berln"; did you mean Europe/Berlin?`,
		"Berlin":           `unknown time zone "Berlin"; did you mean Europe/Berlin?`,
		"europe/berlin":    `unknown time zone "europe/berlin"; did you mean Europe/Berlin?`,
		"America/New York": `unknown time zone "America/New York"; did you mean America/New_York?`,
		"":                 `unknown time zone ""; name one, such as Europe/Berlin or UTC`,
		"Local":            `unknown time zone "Local"; name one, such as Europe/Berlin or UTC`,
		"../etc/passwd":    `unknown time zone "../etc/passwd"`,
		"/etc/localtime":   `unknown time zone "/etc/localtime"`,
		"Europe":           `unknown time zone "Europe"`,
		"Mars/Olympus":     `unknown time zone "Mars/Olympus"`,
	} {
		if _, err := l.Load(name); !errors.Is(err, ErrUnknown) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("Load(%q) = %v, want %s", name, err, want)
		}
	}
	for _, name := range l.names {
		if _, err := l.Load(name); err != nil {
			t.Errorf("Load(%q): %v", name, err)
		}
	}
	if len(l.names) < 500 {
		t.Errorf("only %d names", len(l.names))
	}
}

func TestPOSIXStringsHaveTheRightSign(t *testing.T) {
	l := newLoader(t)
	for _, c := range []struct {
		name           string
		winter, summer string
	}{
		{"EST5EDT,M3.2.0,M11.1.0", "-05:00 EST", "-04:00 EDT"},
		{"EST+5EDT+4,M3.2.0,M11.1.0", "-05:00 EST", "-04:00 EDT"},
		{"MST-07", "+07:00 MST", "+07:00 MST"},
		{"GMT0BST,M3.5.0/1,M10.5.0", "+00:00 GMT", "+01:00 BST"},
		{"<+1030>-10:30<+11>-11,M10.1.0,M4.1.0", "+11:00 +11", "+10:30 +1030"},
		{"<-03>3<-02>,M3.5.0/-2,M10.5.0/-1", "-03:00 -03", "-02:00 -02"},
		{"UTC+2", "-02:00 UTC", "-02:00 UTC"},
		{"IST-1GMT0,M10.5.0,M3.5.0/1", "+00:00 GMT", "+01:00 IST"},
		{"XXX3YYY,J60,J300/3", "-03:00 XXX", "-02:00 YYY"},
	} {
		z, err := l.Load(c.name)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if w, s := offsetAt(t, z, 1705000000), offsetAt(t, z, 1720000000); w != c.winter || s != c.summer {
			t.Errorf("%s is %s in January and %s in July", c.name, w, s)
		}
		if z.Origin != "POSIX" {
			t.Errorf("%s comes from %s", c.name, z.Origin)
		}
	}
	z, err := l.Load("UTC+2")
	if err != nil || z.Note != "UTC+2 is a POSIX string, whose offset counts west of Greenwich: it means UTC-02:00" {
		t.Errorf("note %q, %v", z.Note, err)
	}
	// The example of the Bistro cron notes, with the rule of its time.
	z, err = l.Load("EST+5EDT+4,M4.1.0,M10.5.0")
	if err != nil {
		t.Fatal(err)
	}
	if a, b := offsetAt(t, z, 720597599-7*86400), offsetAt(t, z, 720597600); a != "-04:00 EDT" || b != "-05:00 EST" {
		t.Errorf("1992: %s then %s", a, b)
	}
}

func TestRefusedPOSIXStrings(t *testing.T) {
	for text, want := range map[string]string{
		"EST":                    "the offset is not a number between 0 and 24",
		"ES5":                    "does not begin with a name of three letters",
		"EST25":                  "the offset is not a number between 0 and 24",
		"EST24:30":               "the offset is beyond 24 hours",
		"EST5EDT":                "daylight time has no rule",
		"EST5EDT,M3.2.0":         "the end of daylight time is missing",
		"EST5EDT,M13.2.0,M1.1.0": "the month is not a number between 1 and 12",
		"EST5EDT,M3.6.0,M1.1.0":  "the week is not a number between 1 and 5",
		"EST5EDT,M3.2.7,M1.1.0":  "the weekday is not a number between 0 and 6",
		"EST5EDT,M3-2,M1.1.0":    "the start is not of the form Mm.w.d",
		"EST5EDT,J0,J5":          "the day of the year is not a number between 1 and 365",
		"EST5EDT,366,5":          "the day of the year is not a number between 0 and 365",
		"EST5EDT,5/168,7":        "the time of the start is not a number between 0 and 167",
		"EST5EDT,M3.2.0,M1.1.0x": `"x" follows the rule`,
		"<+1030-10:30":           "does not begin with a name in <>",
	} {
		if _, err := ParsePOSIX(text); !errors.Is(err, ErrPOSIX) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// systemDir makes a directory of zones in which the named zone has the rules of another.
func systemDir(t *testing.T, dir, version, name, rules string) {
	t.Helper()
	db, err := embedded()
	if err != nil {
		t.Fatal(err)
	}
	data, err := db.read(rules)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tzdata.zi"),
		[]byte("# version "+version+"\n# This zic input file is in the public domain.\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestTheNewerDatabaseWins(t *testing.T) {
	for version, want := range map[string]string{"2099a": "+09:00 JST", "2001a": "+02:00 CEST", "unknown": "+02:00 CEST"} {
		dir := t.TempDir()
		systemDir(t, dir, version, "Europe/Berlin", "Asia/Tokyo")
		l := newLoader(t, filepath.Join(dir, "none"), dir)
		z, err := l.Load("Europe/Berlin")
		if err != nil {
			t.Fatal(err)
		}
		if got := offsetAt(t, z, 1720000000); got != want {
			t.Errorf("system %s: Berlin is %s from %s", version, got, z.Origin)
		}
		if z, err := l.Load("Asia/Tokyo"); err != nil || !strings.HasPrefix(z.Origin, "embedded") {
			t.Errorf("a zone that the system lacks: %v from %s", err, z.Origin)
		}
	}
}

func TestADamagedSystemFileFallsBack(t *testing.T) {
	dir := t.TempDir()
	systemDir(t, dir, "2099a", "Europe/Berlin", "Asia/Tokyo")
	if err := os.WriteFile(filepath.Join(dir, "Europe/Paris"), []byte("TZif2 but then nothing"), 0o644); err != nil {
		t.Fatal(err)
	}
	z, err := newLoader(t, dir).Load("Europe/Paris")
	if err != nil || !strings.HasPrefix(z.Origin, "embedded") {
		t.Errorf("Paris: %v from %s", err, z.Origin)
	}
}

func TestRefreshSeesNewRules(t *testing.T) {
	dir := t.TempDir()
	systemDir(t, dir, "2099a", "Europe/Berlin", "Europe/Berlin")
	systemDir(t, dir, "2099a", "Europe/Paris", "Europe/Paris")
	l := newLoader(t, dir)
	before, err := l.Load("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"Europe/Paris", "EST5", "Asia/Tokyo"} {
		if _, err := l.Load(name); err != nil {
			t.Fatal(err)
		}
	}
	if changed, err := l.Refresh(); len(changed) > 0 || err != nil {
		t.Errorf("nothing changed, yet %v, %v", changed, err)
	}
	systemDir(t, dir, "2099b", "Europe/Berlin", "Asia/Tokyo")
	changed, err := l.Refresh()
	if err != nil || len(changed) != 1 || changed[0] != "Europe/Berlin" {
		t.Errorf("changed %v, %v", changed, err)
	}
	after, err := l.Load("Europe/Berlin")
	if err != nil || offsetAt(t, after, 1720000000) != "+09:00 JST" || after.Origin != dir+" 2099b" {
		t.Errorf("after the change %v from %s, %v", offsetAt(t, after, 1720000000), after.Origin, err)
	}
	if got := offsetAt(t, before, 1720000000); got != "+02:00 CEST" {
		t.Errorf("the old location changed under its holder: %s", got)
	}
}

func TestRunReportsChangesAndEnds(t *testing.T) {
	dir := t.TempDir()
	systemDir(t, dir, "2099a", "Europe/Berlin", "Europe/Berlin")
	l := newLoader(t, dir)
	if _, err := l.Load("Europe/Berlin"); err != nil {
		t.Fatal(err)
	}
	systemDir(t, dir, "2099b", "Europe/Berlin", "Asia/Tokyo")
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		reported := make(chan []string, 1)
		done := make(chan error, 1)
		go func() { done <- l.Run(ctx, time.Hour, func(changed []string, err error) { reported <- changed }) }()
		begin := time.Now()
		if got := <-reported; len(got) != 1 || got[0] != "Europe/Berlin" {
			t.Errorf("reported %v", got)
		}
		if d := time.Since(begin); d != time.Hour {
			t.Errorf("after %v", d)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestSystemZone(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "localtime")
	l, err := New(Options{Dirs: []string{}, Localtime: link})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.System(""); !errors.Is(err, ErrNoSystemZone) {
		t.Errorf("without a link: %v", err)
	}
	if z, err := l.System(":Asia/Tokyo"); err != nil || z.Name != "Asia/Tokyo" {
		t.Errorf("TZ: %v, %v", z.Name, err)
	}
	if _, err := l.System("Nowhere"); !errors.Is(err, ErrUnknown) {
		t.Errorf("a wrong TZ: %v", err)
	}
	systemDir(t, filepath.Join(dir, "zoneinfo"), "2001a", "Europe/Berlin", "Europe/Berlin")
	if err := os.Symlink(filepath.Join(dir, "zoneinfo/Europe/Berlin"), link); err != nil {
		t.Fatal(err)
	}
	if z, err := l.System(""); err != nil || z.Name != "Europe/Berlin" {
		t.Errorf("link: %v, %v", z.Name, err)
	}
	if err := os.Rename(filepath.Join(dir, "zoneinfo/Europe/Berlin"), filepath.Join(dir, "copied")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "copied"), link); err != nil {
		t.Fatal(err)
	}
	if z, err := l.System(""); err != nil || offsetAt(t, z, 1720000000) != "+02:00 CEST" {
		t.Errorf("file: %v", err)
	}
}

func TestManyLoadAtOnce(t *testing.T) {
	l := newLoader(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for _, name := range []string{"Europe/Berlin", "Asia/Tokyo", "EST5"} {
				if _, err := l.Load(name); err != nil {
					t.Error(err)
				}
				if _, err := l.Refresh(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

func FuzzPOSIX(f *testing.F) {
	for _, s := range []string{"EST5EDT,M3.2.0,M11.1.0", "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0", "UTC0", "A,",
		"XXX3YYY,J60,300/3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		loc, err := ParsePOSIX(s)
		if err != nil {
			return
		}
		for _, at := range []int64{-1 << 33, 0, 1 << 31, 1 << 34} {
			if _, off := time.Unix(at, 0).In(loc).Zone(); off < -25*3600 || off > 25*3600 {
				t.Errorf("%q has the offset %d", s, off)
			}
		}
	})
}
