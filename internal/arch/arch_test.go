package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// core lists the pure packages, lowest first: each may import only earlier ones
// of its own project besides the value packages of the standard library.
var core = []string{"internal/text", "fault", "fence", "internal/agenda", "internal/dead", "internal/multimap",
	"resource", "label", "action", "cron", "cron/hebrew", "lrp", "task", "placement", "workerset", "worker", "batch",
	"schedule", "plan", "store/head"}

// coreStandard are the value packages that core packages may import.
var coreStandard = []string{
	"bytes", "cmp", "container/heap", "container/list", "crypto/sha256", "encoding/base64", "encoding/binary",
	"encoding/hex", "encoding/json",
	"errors", "fmt", "hash/fnv", "iter", "maps", "math", "math/bits", "math/rand/v2", "net/netip", "path", "reflect",
	"regexp", "slices", "sort", "strconv", "strings",
	"time", "unicode", "unicode/utf8", "unsafe",
}

// shellEdges is the short list of shells that may import another shell; every
// shell may import wire (the messages), internal/run and core.
var shellEdges = map[string][]string{
	"store": {"store/storepb"},
	"executor": {"logstore", "image", "image/cache", "cgroup", "spawn", "spawn/procid", "executor/step",
		"executor/reaper", "executor/reaperbin"},
	"executor/doctor":  {"executor", "cgroup"},
	"executor/reaper":  {"cgroup", "spawn", "spawn/procid"},
	"executor/step":    {"image/cache"},
	"executor/place":   {"image/archive"},
	"executor/isolate": {"spawn"},
	"spawn":            {"cgroup"},
	"registry":         {"store"},
	"scheduler":        {"store", "event"},
	"timetable":        {"store", "event"},
	"cell":             {"executor", "executor/simulate"},
	// its streams read the hub; it parses specs; it merges output of cells
	"api":         {"event", "spec", "logstore"},
	"api/apitest": {"api", "event", "logstore"},
	"bbs":         {"store", "event"}, // it commits records and publishes durable ones: both are values and one call
}

// forbiddenTime are the names of package time that read a clock or the machine.
var forbiddenTime = []string{"Now", "Since", "Until", "After", "AfterFunc", "Tick", "NewTicker", "NewTimer", "Sleep",
	"Local", "LoadLocation"}

type source struct {
	pkg  string // directory below the module, "" = root
	path string
	text string
	test bool
	ast  *ast.File
	fset *token.FileSet
}

// sources are the Go files of the module. All tests share one parse and change nothing in it.
func sources(t *testing.T) []source {
	t.Helper()
	all, err := module()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 10 {
		t.Fatalf("found only %d Go files: the walk is wrong", len(all))
	}
	return all
}

var module = sync.OnceValues(func() ([]source, error) { return parse("../..") })

// parse reads every Go file below root.
func parse(root string) ([]source, error) {
	var out []source
	fset := token.NewFileSet()
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "node_modules" || name == "bin") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		file, err := parser.ParseFile(fset, rel, text, parser.ParseComments)
		if err != nil {
			return err
		}
		out = append(out, source{pkg: filepath.ToSlash(filepath.Dir(rel)), path: rel, text: string(text),
			test: strings.HasSuffix(name, "_test.go"), ast: file, fset: fset})
		return nil
	})
	return out, err
}

func imports(f *ast.File) []string {
	var out []string
	for _, s := range f.Imports {
		p, err := strconv.Unquote(s.Path.Value)
		if err == nil {
			out = append(out, p)
		}
	}
	return out
}

func TestCorePackagesImportOnlyValuesAndLowerCore(t *testing.T) {
	seen := 0
	for _, s := range sources(t) {
		rank := slices.Index(core, s.pkg)
		if rank < 0 || s.test {
			continue
		}
		seen++
		for _, p := range imports(s.ast) {
			if own, ok := strings.CutPrefix(p, "cantina/"); ok {
				if r := slices.Index(core, own); r < 0 || r >= rank {
					t.Errorf("%s imports %s: a core package imports only lower core packages", s.path, p)
				}
				continue
			}
			if !slices.Contains(coreStandard, p) {
				t.Errorf("%s imports %s: not a value package", s.path, p)
			}
		}
	}
	if seen == 0 {
		t.Fatal("no core file was looked at")
	}
}

func TestCorePackagesHaveNoClockGoroutineOrChannel(t *testing.T) {
	for _, s := range sources(t) {
		if !slices.Contains(core, s.pkg) || s.test {
			continue
		}
		for _, bad := range impure(s) {
			t.Error(bad)
		}
	}
}

func TestTheRuleAgainstClocksCanFail(t *testing.T) {
	const text = `package x
import ("time"; "math/rand/v2")
func f(c chan int) { go f(nil); _ = time.Now(); _ = rand.Int(); c <- 1 }`
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "x.go", text, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := impure(source{path: "x.go", ast: file, fset: fset}); len(got) != 5 {
		t.Fatalf("found %d of 5 offences: %v", len(got), got)
	}
}

// impure lists the forbidden actions of a core package: read a clock, use the global random source, start a
// goroutine, use a channel.
func impure(s source) []string {
	var out []string
	say := func(n ast.Node, text string) {
		out = append(out, s.fset.Position(n.Pos()).String()+": "+text)
	}
	ast.Inspect(s.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			say(n, "a core package starts no goroutine")
		case *ast.ChanType:
			say(n, "a core package has no channel")
		case *ast.SendStmt:
			say(n, "a core package sends on no channel")
		case *ast.SelectorExpr:
			id, ok := n.X.(*ast.Ident)
			if !ok || id.Obj != nil {
				return true
			}
			if id.Name == "time" && slices.Contains(forbiddenTime, n.Sel.Name) {
				say(n, "a core package reads no clock (time."+n.Sel.Name+")")
			}
			if id.Name == "rand" && !slices.Contains([]string{"New", "NewPCG", "Rand", "PCG", "Source"}, n.Sel.Name) {
				say(n, "a core package uses no global random source (rand."+n.Sel.Name+")")
			}
		}
		return true
	})
	return out
}

func TestShellsDoNotImportOneAnother(t *testing.T) {
	shells := []string{"store", "bbs", "auctioneer", "scheduler", "timetable", "registry", "event", "cell", "executor",
		"api", "zone",
		"logstore", "image", "spawn", "cgroup"}
	top := func(p string) string { a, _, _ := strings.Cut(p, "/"); return a }
	for _, s := range sources(t) {
		if s.test || !slices.Contains(shells, top(s.pkg)) {
			continue
		}
		for _, p := range imports(s.ast) {
			own, ok := strings.CutPrefix(p, "cantina/")
			if !ok || !slices.Contains(shells, top(own)) || top(own) == top(s.pkg) {
				continue
			}
			if !slices.Contains(shellEdges[s.pkg], own) {
				t.Errorf("%s imports %s: a shell imports no other shell (add the edge to shellEdges with a reason if it must)",
					s.path, own)
			}
		}
	}
}

// TestOnlyProcessesAndSimulatorBuildALeader: the parts of a term meet in one package, and no part imports that
// package.
func TestOnlyProcessesAndSimulatorBuildALeader(t *testing.T) {
	builders := []string{"cmd/cantina", "internal/node", "sim"}
	seen := 0
	for _, s := range sources(t) {
		if s.test || !slices.Contains(imports(s.ast), "cantina/leader") {
			continue
		}
		if seen++; !slices.Contains(builders, s.pkg) {
			t.Errorf("%s imports leader: only the processes and the simulator build one", s.path)
		}
	}
	if seen == 0 {
		t.Fatal("nothing builds a leader: the rule looks at nothing")
	}
}

// TestShellEdgesAreUsed: the list of exceptions has no row that nothing needs.
func TestShellEdgesAreUsed(t *testing.T) {
	used := map[string]bool{}
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		for _, p := range imports(s.ast) {
			used[s.pkg+" "+strings.TrimPrefix(p, "cantina/")] = true
		}
	}
	for pkg, edges := range shellEdges {
		for _, e := range edges {
			if !used[pkg+" "+e] {
				t.Errorf("shellEdges: %s does not import %s: take the row out", pkg, e)
			}
		}
	}
}

func TestEveryPackageHasADocComment(t *testing.T) {
	has := map[string]bool{}
	for _, s := range sources(t) {
		if s.test || strings.HasSuffix(s.path, ".pb.go") || strings.HasSuffix(s.path, ".connect.go") {
			continue
		}
		has[s.pkg] = has[s.pkg] || (s.ast.Doc != nil && len(s.ast.Doc.Text()) > 40)
	}
	for pkg, ok := range has {
		if !ok {
			t.Errorf("package %s has no doc comment of its own", pkg)
		}
	}
}

func TestExportedNamesAreDocumented(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || strings.HasSuffix(s.path, ".pb.go") || strings.HasSuffix(s.path, ".connect.go") {
			continue
		}
		for _, d := range s.ast.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && d.Doc == nil && exportedReceiver(d) {
					t.Errorf("%s: %s has no doc comment", s.fset.Position(d.Pos()), d.Name.Name)
				}
			case *ast.GenDecl:
				undocumented(t, s, d)
			}
		}
	}
}

func undocumented(t *testing.T, s source, d *ast.GenDecl) {
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			if spec.Name.IsExported() && d.Doc == nil && spec.Doc == nil && spec.Comment == nil {
				t.Errorf("%s: type %s has no doc comment", s.fset.Position(spec.Pos()), spec.Name.Name)
			}
		case *ast.ValueSpec:
			for _, n := range spec.Names {
				if n.IsExported() && d.Doc == nil && spec.Doc == nil && spec.Comment == nil {
					t.Errorf("%s: %s has no doc comment", s.fset.Position(spec.Pos()), n.Name)
				}
			}
		}
	}
}

func exportedReceiver(d *ast.FuncDecl) bool {
	return d.Recv == nil || len(d.Recv.List) == 0 || ast.IsExported(receiver(d))
}

func TestNoInitAndNoSleepInTests(t *testing.T) {
	for _, s := range sources(t) {
		if strings.HasSuffix(s.path, ".pb.go") {
			continue
		}
		for _, d := range s.ast.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" && !s.test {
				t.Errorf("%s: no init functions", s.fset.Position(f.Pos()))
			}
		}
		if !s.test {
			continue
		}
		ast.Inspect(s.ast, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if id, ok := sel.X.(*ast.Ident); ok && id.Name == "time" && sel.Sel.Name == "Sleep" && !inBubble(s) {
				t.Errorf("%s: a test waits on events, it does not sleep", s.fset.Position(sel.Pos()))
			}
			return true
		})
	}
}

// inBubble allows time.Sleep in files that use testing/synctest: there it
// advances a fake clock and waits for nothing.
func inBubble(s source) bool { return slices.Contains(imports(s.ast), "testing/synctest") }

func TestNoPathsOfThisMachine(t *testing.T) {
	words := []string{"/" + "work/", "proxy." + "golang.org", "registry." + "npmjs", "deb." + "debian.org", "/" + "root/"}
	for _, s := range sources(t) {
		for _, w := range words {
			if strings.Contains(s.text, w) {
				t.Errorf("%s names a place of one machine or a registry: %q", s.path, w)
			}
		}
	}
}

// Planted errors are patches of the source: no package of the usual build imports the table.
func TestNothingImportsPlantedErrors(t *testing.T) {
	const table = "cantina/sim/mistake"
	seen := 0
	for _, s := range sources(t) {
		if !slices.Contains(imports(s.ast), table) {
			continue
		}
		if seen++; s.pkg != "sim/mistake/run" {
			t.Errorf("%s imports %s", s.path, table)
		}
	}
	if seen == 0 {
		t.Errorf("nothing imports %s: the rule looks at the wrong place", table)
	}
}

// driven lists the packages beside the core that the simulator drives or talks to: the shells themselves, and the
// values that they exchange.
var driven = []string{"auctioneer", "bbs", "cell", "event", "executor", "internal/run", "leader", "registry",
	"scheduler", "store", "timetable"}

// simStandard are the standard packages that the simulator needs beside the value packages:
// shells take a context and a log.
var simStandard = []string{"context", "flag", "io", "log/slog"}

// The simulator holds the world, in one goroutine without a clock. Its decisions come from the core and from the
// shells, and it never calls their Run.
func TestSimulatorDrivesTheCoreAlone(t *testing.T) {
	imported := map[string]bool{}
	for _, s := range sources(t) {
		if s.pkg != "sim" || s.test {
			continue
		}
		for _, p := range imports(s.ast) {
			if own, ok := strings.CutPrefix(p, "cantina/"); ok {
				imported[own] = true
				if !slices.Contains(core, own) && !slices.Contains(driven, own) {
					t.Errorf("%s imports %s: the simulator drives the core and the listed shells only", s.path, p)
				}
			} else if !slices.Contains(coreStandard, p) && !slices.Contains(simStandard, p) {
				t.Errorf("%s imports %s: not a value package", s.path, p)
			}
		}
		if s.path == "sim/main.go" {
			continue // it measures how long the runs take
		}
		for _, bad := range impure(s) {
			t.Error(bad)
		}
		ast.Inspect(s.ast, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				if sel, ok := call.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Run" {
					t.Errorf("%s: the simulator runs no loop of a shell", s.fset.Position(call.Pos()))
				}
			}
			return true
		})
	}
	for _, own := range append([]string{"worker", "lrp", "task", "placement"}, driven...) {
		if !imported[own] {
			t.Errorf("the simulator does not drive %s", own)
		}
	}
}

// TestOnlyTheGuardServesHTTP: a listener of its own would have no guard in front, and a mux of
// its own would have paths that no test walks.
func TestOnlyTheGuardServesHTTP(t *testing.T) {
	seen := 0
	for _, s := range sources(t) {
		if s.test || strings.HasPrefix(s.pkg, "examples") || strings.HasPrefix(s.pkg, "bench") {
			continue
		}
		ast.Inspect(s.ast, func(n ast.Node) bool {
			x, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			id, ok := x.X.(*ast.Ident)
			if !ok || id.Name != "http" || !slices.Contains([]string{"Server", "NewServeMux", "ServeMux", "Serve", "ServeTLS",
				"ListenAndServe", "ListenAndServeTLS"}, x.Sel.Name) {
				return true
			}
			if seen++; s.pkg != "internal/guard" {
				t.Errorf("%s uses http.%s: guard.Door.Serve and guard.Mux are for that", s.fset.Position(x.Pos()), x.Sel.Name)
			}
			return true
		})
	}
	if seen == 0 {
		t.Error("nothing serves HTTP: the rule looks at the wrong place")
	}
}

// TestOnlyOwnersOfRowsCommit: each row has one owner that decides about it, so only the owners hand transitions to the
// store. What another part changes goes through one of them.
func TestOnlyOwnersOfRowsCommit(t *testing.T) {
	owners := map[string]bool{"bbs": false, "scheduler": false, "registry": false}
	for _, s := range sources(t) {
		if s.test || s.pkg == "sim" || s.pkg == "store" || strings.HasPrefix(s.pkg, "store/") ||
			!slices.Contains(imports(s.ast), "cantina/store") {
			continue
		}
		ast.Inspect(s.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			x, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || x.Sel.Name != "Submit" {
				return true
			}
			if _, owner := owners[s.pkg]; !owner {
				t.Errorf("%s calls Submit: only the owners of rows commit", s.fset.Position(x.Pos()))
			}
			owners[s.pkg] = true
			return true
		})
	}
	for pkg, found := range owners {
		if !found {
			t.Errorf("%s commits nothing: it owns no rows, or the rule looks at the wrong place", pkg)
		}
	}
}

// TestTheMapHasEveryPackage: CONTRIBUTING.md names each top-level directory with Go code.
func TestTheMapHasEveryPackage(t *testing.T) {
	b, err := os.ReadFile("../../CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(b), "## Package map")
	text, _, _ = strings.Cut(text, "\n## ")
	seen := map[string]bool{}
	for _, s := range sources(t) {
		top, _, _ := strings.Cut(s.pkg, "/")
		if seen[top] {
			continue
		}
		seen[top] = true
		if top != "scripts" && !strings.Contains(text, "`"+top+"`") && !strings.Contains(text, "`"+top+"/") {
			t.Errorf("the package map of CONTRIBUTING.md does not name %s", top)
		}
	}
	if len(seen) < 20 {
		t.Fatalf("only %d directories found: the search is broken", len(seen))
	}
}

// TestEveryDecisionIsListed: the index names each page once, and nothing else.
func TestEveryDecisionIsListed(t *testing.T) {
	const dir = "../../docs/decisions"
	index, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	pages, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pages {
		if p.Name() == "README.md" {
			continue
		}
		if n := strings.Count(string(index), "]("+p.Name()+")"); n != 1 {
			t.Errorf("docs/decisions/README.md lists %s %d times, want once", p.Name(), n)
		}
	}
	if n := strings.Count(string(index), "]("); n != len(pages)-1 {
		t.Errorf("docs/decisions/README.md has %d links for %d pages", n, len(pages)-1)
	}
}
