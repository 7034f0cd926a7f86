package zone

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Errors of this package.
var (
	// ErrUnknown refuses a name that is neither an IANA name nor a POSIX string.
	ErrUnknown = errors.New("unknown time zone")
	// ErrPOSIX refuses a malformed POSIX string.
	ErrPOSIX = errors.New("malformed POSIX time zone")
	// ErrNoSystemZone reports that the machine's zone is unknown.
	ErrNoSystemZone = errors.New("the zone of this machine cannot be found out")
)

// Zone is a loaded time zone.
type Zone struct {
	Name     string
	Location *time.Location
	// Origin is the source of the rules: "embedded 2025c", "/usr/share/zoneinfo 2026a" or "POSIX".
	Origin string
	// Note is a remark that the author should see, "" without one.
	Note string
}

// Options of a Loader; the zero value is right for production.
type Options struct {
	// Dirs are looked through for the system's zones; nil means the usual ones.
	Dirs []string
	// Localtime is the link or file with the machine's zone; "" is /etc/localtime.
	Localtime string
}

// Loader finds zones and remembers them.
type Loader struct {
	dirs      []string
	localtime string
	embedded  database
	names     []string

	mu     sync.Mutex // guards the fields below; files are read outside it
	loaded map[string]loaded
}

type loaded struct {
	zone Zone
	data []byte // compiled, to see a change; nil for POSIX
}

// New makes a Loader. It fails only if the embedded database is damaged.
func New(o Options) (*Loader, error) {
	db, err := embedded()
	if err != nil {
		return nil, err
	}
	if o.Dirs == nil {
		o.Dirs = []string{"/usr/share/zoneinfo", "/usr/share/lib/zoneinfo", "/usr/lib/locale/TZ", "/etc/zoneinfo"}
	}
	if o.Localtime == "" {
		o.Localtime = "/etc/localtime"
	}
	return &Loader{dirs: o.Dirs, localtime: o.Localtime, embedded: db, names: db.names(), loaded: map[string]loaded{}}, nil
}

// Names lists the IANA names of the embedded database, sorted: tests of package cron look at all.
func (l *Loader) Names() []string { return slices.Clone(l.names) }

// Load returns a zone by IANA name or POSIX string. The location never changes; after a change of
// rules (see Refresh) Load returns another. Errors: ErrUnknown with the nearest names, ErrPOSIX.
func (l *Loader) Load(name string) (Zone, error) {
	l.mu.Lock()
	got, ok := l.loaded[name]
	l.mu.Unlock()
	if ok {
		return got.zone, nil
	}
	fresh, err := l.read(name)
	if err != nil {
		return Zone{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if got, ok := l.loaded[name]; ok {
		return got.zone, nil
	}
	if len(l.loaded) < maxLoaded {
		l.loaded[name] = fresh
	}
	return fresh.zone, nil
}

// maxLoaded limits the zones that a Loader keeps: all IANA names and some more. Other names are
// read each time.
const maxLoaded = 4096

// read loads a zone from the newer database that has it.
func (l *Loader) read(name string) (loaded, error) {
	order := []database{l.embedded}
	if sys, ok := system(l.dirs); ok {
		order = append(order, sys)
		if sys.newer(l.embedded) {
			slices.Reverse(order)
		}
	}
	var broken error
	for _, db := range order {
		if name == "Local" || name == "" {
			break // package time would take these for the machine's zone and UTC
		}
		data, err := db.read(name)
		if err == nil {
			var loc *time.Location
			if loc, err = time.LoadLocationFromTZData(name, data); err == nil {
				return loaded{Zone{Name: name, Location: loc, Origin: db.String()}, data}, nil
			}
		}
		if !errors.Is(err, fs.ErrNotExist) {
			broken = errors.Join(broken, err)
		}
	}
	if loc, err := ParsePOSIX(name); err == nil {
		spec, _ := (&posixParser{rest: name}).parse()
		return loaded{zone: Zone{Name: name, Location: loc, Origin: "POSIX", Note: spec.describe(name)}}, nil
	} else if strings.Contains(name, ",") {
		return loaded{}, err
	}
	return loaded{}, l.unknown(name, broken)
}

func (l *Loader) unknown(name string, broken error) error {
	err := fmt.Errorf("%w %q", ErrUnknown, name)
	if near := suggest(name, l.names); len(near) > 0 {
		err = fmt.Errorf("%w; did you mean %s?", err, strings.Join(near, " or "))
	}
	if name == "" || name == "Local" {
		err = fmt.Errorf("%w; name one, such as Europe/Berlin or UTC", err)
	}
	if broken != nil {
		err = fmt.Errorf("%w (%w)", err, broken)
	}
	return err
}

// Refresh reads all loaded zones again and returns the names of those whose rules have changed. A
// zone that cannot be read keeps its rules; the error reports it, and the others are still
// refreshed.
func (l *Loader) Refresh() (changed []string, err error) {
	l.mu.Lock()
	old := make(map[string]loaded, len(l.loaded))
	for name, z := range l.loaded {
		old[name] = z
	}
	l.mu.Unlock()
	var problems []error
	for name, was := range old {
		if was.data == nil {
			continue
		}
		fresh, err := l.read(name)
		if err != nil {
			problems = append(problems, fmt.Errorf("refresh zone %s: %w", name, err))
			continue
		}
		if bytes.Equal(fresh.data, was.data) {
			continue
		}
		l.mu.Lock()
		l.loaded[name] = fresh
		l.mu.Unlock()
		changed = append(changed, name)
	}
	slices.Sort(changed)
	return changed, errors.Join(problems...)
}

// Run calls Refresh regularly, and report with the names that changed or the error, until ctx is
// done; then it returns nil.
func (l *Loader) Run(ctx context.Context, every time.Duration, report func(changed []string, err error)) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if changed, err := l.Refresh(); len(changed) > 0 || err != nil {
				report(changed, err)
			}
		}
	}
}

// System returns the machine's zone: the variable TZ, passed by the caller ("" = not set), else
// the target of /etc/localtime. It is ErrNoSystemZone, never UTC, if neither is set.
func (l *Loader) System(tz string) (Zone, error) {
	if tz != "" {
		return l.Load(strings.TrimPrefix(tz, ":"))
	}
	target, err := filepath.EvalSymlinks(l.localtime)
	if err != nil {
		return Zone{}, fmt.Errorf("%w: %w", ErrNoSystemZone, err)
	}
	if _, name, ok := strings.Cut(target, "zoneinfo/"); ok {
		return l.Load(strings.TrimPrefix(name, "posix/"))
	}
	data, err := os.ReadFile(target)
	if err != nil {
		return Zone{}, fmt.Errorf("%w: %w", ErrNoSystemZone, err)
	}
	loc, err := time.LoadLocationFromTZData(target, data)
	if err != nil {
		return Zone{}, fmt.Errorf("%w: %w", ErrNoSystemZone, err)
	}
	return Zone{Name: target, Location: loc, Origin: target}, nil
}
