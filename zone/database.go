package zone

import (
	"archive/zip"
	"bytes"
	_ "embed" // the database of zones is part of the binary
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

//go:embed zoneinfo.zip
var embeddedZip []byte

//go:embed zoneinfo.version
var embeddedVersion string

// database is a set of compiled zones with a version such as "2025c".
type database struct {
	origin  string // "embedded", or the directory
	version string // "" = unknown
	files   fs.FS
}

func embedded() (database, error) {
	r, err := zip.NewReader(bytes.NewReader(embeddedZip), int64(len(embeddedZip)))
	if err != nil {
		return database{}, fmt.Errorf("open the embedded zones: %w", err)
	}
	return database{origin: "embedded", version: strings.TrimSpace(embeddedVersion), files: r}, nil
}

// system finds the first directory that holds zones; ok is false without one.
func system(dirs []string) (db database, ok bool) {
	for _, dir := range dirs {
		if _, err := os.Stat(filepath.Join(dir, "Europe")); err != nil {
			continue
		}
		db = database{origin: dir, files: os.DirFS(dir)}
		db.version = db.readVersion()
		return db, true
	}
	return database{}, false
}

// readVersion looks where distributions write the version of their zones.
func (db database) readVersion() string {
	for _, name := range []string{"tzdata.zi", "+VERSION", "version"} {
		f, err := db.files.Open(name)
		if err != nil {
			continue
		}
		head := make([]byte, 64)
		n, _ := io.ReadFull(f, head)
		f.Close()
		if v := regexp.MustCompile(`\b(19|20)\d\d[a-z]{1,2}\b`).FindString(string(head[:n])); v != "" {
			return v
		}
	}
	return ""
}

// newer compares versions; an unknown one is older than any.
func (db database) newer(other database) bool { return db.version > other.version }

// read gives the compiled zone.
func (db database) read(name string) ([]byte, error) {
	if !fs.ValidPath(name) || name == "." {
		return nil, fs.ErrNotExist
	}
	data, err := fs.ReadFile(db.files, name)
	if err != nil {
		return nil, err
	}
	if !bytes.HasPrefix(data, []byte("TZif")) {
		return nil, fmt.Errorf("%s in %s: %w", name, db.origin, errNoZoneFile)
	}
	return data, nil
}

var errNoZoneFile = errors.New("not a compiled zone")

// names lists the zones of the embedded database.
func (db database) names() []string {
	var out []string
	if r, ok := db.files.(*zip.Reader); ok {
		for _, f := range r.File {
			if !strings.HasSuffix(f.Name, "/") {
				out = append(out, f.Name)
			}
		}
	}
	slices.Sort(out)
	return out
}

func (db database) String() string {
	if db.version == "" {
		return db.origin
	}
	return db.origin + " " + db.version
}
