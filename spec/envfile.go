package spec

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"cantina/action"
	"cantina/internal/text"
)

// MaxEnvFile is the largest file of variables in bytes.
const MaxEnvFile = 1 << 20

// MaxEnvTotal bounds the variables that all env_file fields of a request add, in bytes: many entries may name one
// file. Each variable costs its name, its value and envCost.
const MaxEnvTotal = 16 << 20

const envCost = 64

// ErrNoDir is the error of Input.EnvFile for a spec file without a directory.
var ErrNoDir = errors.New("spec file has no directory")

// Variable is a variable of a file of variables, with its place.
type Variable struct {
	action.Variable
	Line, Column int
}

// ParseEnv reads a file of variables, as env_file names it. name is for error texts. Texts of errors never have a
// value. The error is *Problems.
func ParseEnv(name string, data []byte) ([]Variable, error) {
	e := &envParser{file: name, rest: data, line: 1, column: 1}
	if len(data) > MaxEnvFile {
		e.problems.add(Problem{File: name, Text: "file of variables too large",
			Hint: fmt.Sprintf("the maximum is %d bytes", MaxEnvFile), Semantic: true})
		return nil, e.problems.orNil()
	}
	if at := slices.Index(data, 0); at >= 0 || !utf8.Valid(data) {
		e.bad(data)
		return nil, e.problems.orNil()
	}
	e.rest = bytes.ReplaceAll(bytes.TrimPrefix(data, []byte("\ufeff")), []byte("\r\n"), []byte("\n"))
	for len(e.rest) > 0 {
		e.entry()
	}
	if err := e.problems.orNil(); err != nil {
		return nil, err
	}
	return e.found, nil
}

// envParser reads a file of variables from its beginning to its end.
type envParser struct {
	file         string
	rest         []byte
	line, column int // of rest
	found        []Variable
	problems     Problems
}

// bad reports the first byte that no variable may have.
func (e *envParser) bad(data []byte) {
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		if r == 0 || r == utf8.RuneError && n == 1 {
			problem := "not UTF-8"
			if r == 0 {
				problem = "NUL is not allowed"
			}
			e.problem(1+bytes.Count(data[:i], []byte("\n")), 1+utf8.RuneCount(data[bytes.LastIndexByte(data[:i], '\n')+1:i]),
				problem, "")
			return
		}
		i += n
	}
}

func (e *envParser) problem(line, column int, text, hint string) {
	e.problems.add(Problem{File: e.file, Line: line, Column: column, Text: text, Hint: hint, Semantic: true})
}

// take removes n bytes from the rest.
func (e *envParser) take(n int) string {
	out := string(e.rest[:n])
	e.rest = e.rest[n:]
	if lines := strings.Count(out, "\n"); lines > 0 {
		e.line, e.column = e.line+lines, 1
		out := out[strings.LastIndexByte(out, '\n')+1:]
		e.column += utf8.RuneCountInString(out)
	} else {
		e.column += utf8.RuneCountInString(out)
	}
	return out
}

// blanks skips blanks of the line.
func (e *envParser) blanks() { e.take(len(e.rest) - len(bytes.TrimLeft(e.rest, " \t"))) }

// endOfLine takes the rest of the line, without its end.
func (e *envParser) endOfLine() string {
	n := bytes.IndexByte(e.rest, '\n')
	if n < 0 {
		return e.take(len(e.rest))
	}
	out := e.take(n)
	e.take(1)
	return out
}

// entry reads a line, or several with a quoted value.
func (e *envParser) entry() {
	e.blanks()
	line, column := e.line, e.column
	if len(e.rest) == 0 || e.rest[0] == '\n' || e.rest[0] == '#' || e.rest[0] == ';' {
		e.endOfLine()
		return
	}
	if bytes.HasPrefix(e.rest, []byte("export ")) {
		e.take(len("export "))
		e.blanks()
		line, column = e.line, e.column
	}
	n := bytes.IndexAny(e.rest, "=\n")
	if n < 0 || e.rest[n] == '\n' {
		e.problem(line, column, "no = in the line", "write NAME=VALUE; a value of several lines needs quotes")
		e.endOfLine()
		return
	}
	name := e.take(n)
	e.take(1)
	if name == "" || strings.ContainsAny(name, " \t\r'\"#") {
		e.problem(line, column, "a variable name must not be empty, or contain blanks, quotes or #",
			"write NAME=VALUE, without blanks before =")
		e.endOfLine()
		return
	}
	value, ok := e.value(name)
	if !ok {
		return
	}
	v := action.Variable{Name: name, Value: value}
	if err := action.CheckEnv([]action.Variable{v}); err != nil {
		e.problem(line, column, oneLine(err), "")
	}
	e.found = append(e.found, Variable{Variable: v, Line: line, Column: column})
}

// value reads a value up to the end of its line.
func (e *envParser) value(name string) (string, bool) {
	e.blanks()
	line, column := e.line, e.column
	if len(e.rest) > 0 && (e.rest[0] == '\'' || e.rest[0] == '"') {
		return e.quoted(name)
	}
	s := strings.TrimRight(e.endOfLine(), " \t\r")
	problem := ""
	switch {
	case strings.Contains(s, " #") || strings.Contains(s, "\t#") || strings.HasPrefix(s, "#"):
		problem = "has a # that some programs read as a comment"
	case strings.HasSuffix(s, `\`):
		problem = "ends with a backslash, which some programs read as a continued line"
	case strings.ContainsRune(s, '\r'):
		problem = "has a carriage return"
	default:
		return s, true
	}
	e.problem(line, column, "the value of "+text.Shorten(name, 60)+" "+problem, "put the value into quotes")
	return "", false
}

// quoted reads a value in quotes, which may have several lines.
func (e *envParser) quoted(name string) (string, bool) {
	line, column := e.line, e.column
	quote := e.take(1)[0]
	var out strings.Builder
	for {
		n := bytes.IndexAny(e.rest, string(quote)+`\`)
		if quote == '\'' {
			n = bytes.IndexByte(e.rest, quote)
		}
		if n < 0 {
			e.take(len(e.rest))
			e.problem(line, column, "the quote of "+text.Shorten(name, 60)+" has no end", "")
			return "", false
		}
		out.WriteString(e.take(n))
		if e.rest[0] == quote {
			e.take(1)
			break
		}
		at := e.column
		if len(e.rest) > 1 {
			if c := strings.IndexByte("nrt\"\\$`", e.rest[1]); c >= 0 {
				out.WriteByte("\n\r\t\"\\$`"[c])
				e.take(2)
				continue
			}
		}
		e.problem(e.line, at, "unknown escape in the value of "+text.Shorten(name, 60),
			"double quotes have \\n \\r \\t \\\" \\\\ \\$ and \\`; in single quotes a backslash is a backslash")
		e.take(1)
	}
	e.blanks()
	after := e.column
	at := e.line
	if s := strings.TrimRight(e.endOfLine(), " \t"); s != "" && s[0] != '#' {
		e.problem(at, after, "text after the closing quote of "+text.Shorten(name, 60),
			"put the whole value into quotes; after them, only a comment is allowed")
		return "", false
	}
	return out.String(), true
}

// envFiles are the paths of files of variables: one, or a list.
type envFiles []envFile

type envFile struct {
	path string
	at   *path
	node *yaml.Node
}

func (f *envFiles) decode(d *decoder, at *path, n *yaml.Node) {
	one := func(at *path, n *yaml.Node) {
		switch {
		case !isText(n):
			d.problem(at, n, "must be the path of a file, not "+kindOf(n), quoteHint(n))
		case n.Value == "":
			d.problem(at, n, "must not be empty", "")
		case !noNUL(n.Value):
			d.meaning(at, n, "must not contain a NUL byte", "")
		default:
			*f = append(*f, envFile{path: n.Value, at: at, node: n})
		}
	}
	if n.Kind != yaml.SequenceNode {
		one(at, n)
		return
	}
	for i, item := range n.Content {
		one(&path{outer: at, index: i}, item)
	}
}

func (*envFiles) form() schema {
	name := map[string]any{"type": "string", "minLength": 1}
	return schema{words: "a path, or a list of paths", json: map[string]any{"anyOf": []any{
		name, map[string]any{"type": "array", "items": name},
	}}}
}

// placed is a variable of an entry, with the place that sets it.
type placed struct {
	action.Variable
	Problem // without a text
}

// envReader reads the files of variables of a spec file.
type envReader struct {
	*decoder
	text     Input
	files    map[string][]Variable // those that were read, by path
	expanded int                   // bytes of variables from files
	full     bool                  // that is too much, and was reported
}

// variables joins env_file and env of an entry: later files replace variables of earlier ones, env those of files.
func (b *envReader) variables(w *workload) []placed {
	var out []placed
	at := map[string]int{}
	set := func(v placed) {
		if i, twice := at[v.Name]; twice {
			out[i] = v
			return
		}
		at[v.Name] = len(out)
		out = append(out, v)
	}
	for i := range w.EnvFile {
		f := &w.EnvFile[i]
		for _, v := range b.read(f) {
			b.expanded += len(v.Name) + len(v.Value) + envCost
			if b.expanded > MaxEnvTotal {
				if !b.full {
					b.full = true
					b.meaning(f.at, f.node, fmt.Sprintf("env_file fields add more than %d bytes of variables", MaxEnvTotal),
						"give only the variables that an entry needs, or read the file in the program")
				}
				return out
			}
			set(placed{v.Variable, Problem{File: b.shown(f.path), Line: v.Line, Column: v.Column, Path: v.Name}})
		}
	}
	for _, e := range w.Env {
		set(placed{action.Variable{Name: e.key, Value: string(e.value)},
			Problem{File: b.decoder.file, Line: e.node.Line, Column: e.node.Column, Path: e.at.String()}})
	}
	return out
}

// read reads a file of variables once.
func (b *envReader) read(f *envFile) []Variable {
	if found, read := b.files[f.path]; read {
		return found
	}
	b.files[f.path] = nil
	if beginsHome(f.path) {
		b.meaning(f.at, f.node, fmt.Sprintf("%q is not expanded", text.Shorten(f.path, 60)),
			"use an absolute path, or one relative to the directory of this file")
		return nil
	}
	data, err := b.text.EnvFile(f.path)
	if err != nil {
		shown := text.Shorten(f.path, 200)
		problem, hint := fmt.Sprintf("%s: %v", shown, err), ""
		var in *fs.PathError
		switch {
		case errors.Is(err, errNotSent):
			problem = fmt.Sprintf("the content of %s is not in the request", shown)
			hint = "send it in env_files of the file, or use the CLI, which does so"
		case errors.Is(err, ErrNoDir):
			problem = fmt.Sprintf("%s is not read: this file has no directory", shown)
			hint = "download the spec file, then name it"
		case errors.Is(err, fs.ErrNotExist):
			problem = fmt.Sprintf("file %s not found", shown)
			hint = "create it, or correct the path: it is relative to the directory of this file"
		case errors.As(err, &in):
			problem = fmt.Sprintf("file %s cannot be read: %v", shown, in.Err)
		}
		b.meaning(f.at, f.node, problem, hint)
		return nil
	}
	found, err := ParseEnv(b.shown(f.path), data)
	var problems *Problems
	if errors.As(err, &problems) {
		for _, p := range problems.List {
			b.problems.add(p)
		}
		b.problems.More += problems.More
	}
	b.files[f.path] = found
	return found
}

// shown is the path of a file of variables for people: from where they named the spec file.
func (b *envReader) shown(path string) string {
	if dir := filepath.Dir(b.decoder.file); !filepath.IsAbs(path) && dir != "." && b.text.Dir != "" {
		return filepath.Join(dir, path)
	}
	return cmp.Or(filepath.Clean(path), path)
}

// errNotSent is the error of a source without files of variables.
var errNotSent = errors.New("not sent")

// Sent returns a Input.EnvFile for contents that came with the spec file, by path.
func Sent(files map[string][]byte) func(path string) ([]byte, error) {
	return func(path string) ([]byte, error) {
		if data, ok := files[path]; ok {
			return data, nil
		}
		return nil, errNotSent
	}
}
