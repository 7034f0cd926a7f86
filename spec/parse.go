package spec

import (
	"cmp"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"cantina/bistro"
	"cantina/internal/text"
	"cantina/lrp"
	"cantina/plan"
)

// File is the desired state in a spec file. Services have no process guid, jobs no uid: the leader
// creates them.
type File struct {
	plan.Application

	// FromFiles is the size of the variables that env_file fields add, in bytes; see MaxEnvTotal.
	FromFiles int

	names map[string]mark // "service web" → its position
	first mark
}

// mark is a place in a file.
type mark struct {
	file         string
	line, column int
}

// Input is the text of a spec file and its surroundings.
type Input struct {
	// Name is for error texts. Dir is the directory that relative programs and directories are
	// resolved against, and may be empty: then they are refused.
	Name, Dir string
	Content   []byte
	// EnvFile returns the content of a file of variables by its path in env_file; nil = there are none.
	EnvFile func(path string) ([]byte, error)
}

// Parse reads one spec file without env_file; see Input.
func Parse(name, base string, data []byte, times Times) (*File, error) {
	return Input{Name: name, Dir: base, Content: data}.Parse(times)
}

// Parse reads one spec file. times is for the calendars of schedules. The error is *Problems with
// all that is wrong. A configuration file of Bistro is read as one, too.
func (s Input) Parse(times Times) (*File, error) {
	name, base, data := s.Name, s.Dir, s.Content
	if bistro.Is(data) {
		return parseBistro(name, cmp.Or(times.BistroDomain, BistroDomain), data)
	}
	if s.EnvFile == nil {
		s.EnvFile = Sent(nil)
	}
	d := &decoder{file: name, types: map[reflect.Type]*fields{}}
	root := d.readText(data)
	if root == nil {
		return nil, d.problems.orNil()
	}
	var f file
	d.object(nil, root, reflect.ValueOf(&f).Elem())
	b := &builder{decoder: d, base: base, times: times,
		env: envReader{decoder: d, text: s, files: map[string][]Variable{}}}
	if d.problems.More > 0 { // no room for more, and not all is known
		return nil, d.problems.orNil()
	}
	for _, p := range d.problems.List {
		if !p.Semantic {
			b.form = append(b.form, p.Path)
		}
	}
	if len(b.form) > 0 {
		b.portsAlone(&f)
	}
	out := b.file(&f)
	if err := d.problems.orNil(); err != nil {
		return nil, err
	}
	return out, nil
}

// Merge joins files of the same domain, as `apply -f Directory` reads them; domains
// keep the order of their first file. The error is *Problems.
func Merge(files []*File) ([]*File, error) {
	var out []*File
	var problems Problems
	for _, f := range files {
		var same *File
		for _, o := range out {
			if o.Domain == f.Domain {
				same = o
			}
		}
		if same == nil {
			c := *f
			c.names = map[string]mark{}
			for k, v := range f.names {
				c.names[k] = v
			}
			out = append(out, &c)
			continue
		}
		for k, v := range f.names {
			if first, twice := same.names[k]; twice {
				problems.add(Problem{
					File: v.file, Line: v.line, Column: v.column,
					Text: fmt.Sprintf("duplicate: %s of domain %s is already defined", k, f.Domain),
					Hint: fmt.Sprintf("see %s:%d", first.file, first.line), Semantic: true,
				})
			}
			same.names[k] = v
		}
		if same.TTL != f.TTL {
			problems.add(Problem{
				File: f.first.file, Line: f.first.line, Column: f.first.column, Path: "domain_ttl",
				Text: "differs from the one in " + same.first.file, Semantic: true,
			})
		}
		same.FromFiles += f.FromFiles
		same.Warnings = append(same.Warnings, f.Warnings...)
		same.Services = append(same.Services, f.Services...)
		same.Tasks = append(same.Tasks, f.Tasks...)
		same.Jobs = append(same.Jobs, f.Jobs...)
		same.Schedules = append(same.Schedules, f.Schedules...)
	}
	return out, problems.orNil()
}

// builder converts the field structs to the values of the domain and reports semantic errors.
type builder struct {
	*decoder
	base  string
	times Times
	form  []string // paths of the mistakes of form
	notes []string // remarks on a file that is accepted

	env envReader
}

// broken reports whether a resource has a syntax error: then its fields are not reliable, and
// their meaning is not checked. All other resources of the file are checked, so that one run
// reports all errors.
func (b *builder) broken(at *path) bool {
	whole := at.String()
	return slices.ContainsFunc(b.form, func(p string) bool {
		rest, within := strings.CutPrefix(p, whole)
		return within && (rest == "" || rest[0] == '.' || rest[0] == '[')
	})
}

func (b *builder) file(f *file) *File {
	out := &File{Application: plan.Application{Domain: "default"}, names: map[string]mark{},
		first: mark{b.decoder.file, 1, 1}}
	if f.Domain != "" && !b.broken(&path{outer: f.at, name: "domain"}) {
		out.Domain = f.Domain
		if !lrp.ValidName(f.Domain) {
			b.field(&f.place, "domain", lrp.NameRule, "")
		}
	}
	if f.DomainTTL != nil && !b.broken(&path{outer: f.at, name: "domain_ttl"}) {
		out.TTL = time.Duration(*f.DomainTTL)
		if out.TTL <= 0 {
			b.field(&f.place, "domain_ttl", "must be longer than 0", "or remove it: the domain then never expires")
		}
	}
	for i := range f.Services {
		e := &f.Services[i]
		out.names["service "+e.key] = mark{b.decoder.file, e.node.Line, e.node.Column}
		if b.broken(e.at) {
			continue
		}
		out.Services = append(out.Services, b.service(out.Domain, e.key, &e.value))
	}
	for i := range f.Tasks {
		e := &f.Tasks[i]
		out.names["task "+e.key] = mark{b.decoder.file, e.node.Line, e.node.Column}
		if b.broken(e.at) {
			continue
		}
		out.Tasks = append(out.Tasks, plan.NamedTask{Name: e.key, Definition: b.task(&e.value)})
	}
	all := indexJobs(f.Jobs)
	unknown := slices.ContainsFunc(f.Jobs, func(e entry[job]) bool { return b.broken(e.at) })
	for i := range f.Jobs {
		e := &f.Jobs[i]
		out.names["job "+e.key] = mark{b.decoder.file, e.node.Line, e.node.Column}
		if b.broken(e.at) || unknown && (e.value.NodesOf != "" || len(e.value.DependsOn)+len(e.value.After) > 0) {
			continue
		}
		out.Jobs = append(out.Jobs, b.job(out.Domain, e.key, &e.value, all))
	}
	for i := range f.Schedules {
		e := &f.Schedules[i]
		out.names["schedule "+e.key] = mark{b.decoder.file, e.node.Line, e.node.Column}
		if b.broken(e.at) {
			continue
		}
		if _, twice := out.names["job "+e.key]; twice && e.value.Job != nil {
			b.meaning(e.at, e.node, "job "+e.key, "choose another name")
		}
		out.Schedules = append(out.Schedules, b.schedule(out.Domain, e.key, &e.value))
	}
	out.Warnings, out.FromFiles = b.notes, b.env.expanded
	return out
}

// homes are beginnings of paths that a shell would replace.
func homes() []string { return []string{"~/", "$HOME/", "${HOME}/"} }

// beginsHome reports whether a shell would replace the beginning of a path.
func beginsHome(s string) bool {
	return slices.ContainsFunc(homes(), func(h string) bool { return s+"/" == h || strings.HasPrefix(s, h) })
}

// relative resolves a path that begins with ./ or ../ against the spec file's
// directory; other paths stay.
func (b *builder) relative(p *place, field, s string) string {
	if beginsHome(s) {
		b.field(p, field, fmt.Sprintf("%q is not expanded", text.Shorten(s, 60)),
			"use an absolute path, or ./ for the directory of this file")
		return s
	}
	if s != "." && s != ".." && !strings.HasPrefix(s, "./") && !strings.HasPrefix(s, "../") {
		return s
	}
	if b.base == "" {
		b.field(p, field, fmt.Sprintf("%q is relative, but the file has no directory", text.Shorten(s, 60)),
			"use an absolute path")
		return s
	}
	return filepath.Join(b.base, s)
}
