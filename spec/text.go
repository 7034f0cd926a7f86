package spec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// MaxSize is the largest spec file in bytes.
const MaxSize = 16 << 20

// maxDepth bounds the nesting of a spec file.
const maxDepth = 100

// maxAliased limits the nodes behind aliases.
const maxAliased = 100_000

// readText turns the text into a tree of nodes. The tree is bounded: no aliases
// are left, nothing is nested deeper than maxDepth. It returns nil after a
// problem with the text itself.
func (d *decoder) readText(data []byte) *yaml.Node {
	if len(data) > MaxSize {
		d.problem(nil, nil, fmt.Sprintf("spec file too large: %d bytes", len(data)),
			fmt.Sprintf("the maximum is %d", MaxSize))
		return nil
	}
	if CountValues(data) > MaxValues {
		d.problem(nil, nil, "too many values",
			fmt.Sprintf("at most %d keys, strings, lists and mappings per request; split the request", MaxValues))
		return nil
	}
	if !d.checkBytes(data) {
		return nil
	}
	decode := yaml.NewDecoder(bytes.NewReader(data))
	var found *yaml.Node
	for {
		var doc yaml.Node
		err := safely(func() error { return decode.Decode(&doc) })
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			d.syntax(data, err)
			return nil
		}
		if emptyDocument(&doc) {
			continue
		}
		if found != nil {
			d.problem(nil, &doc, "second document in one file", "put it into a separate file")
			return nil
		}
		found = doc.Content[0]
	}
	if found == nil {
		d.problem(nil, &yaml.Node{Line: 1, Column: 1}, "the file is empty", "")
		return nil
	}
	budget := maxAliased
	return d.resolve(found, 0, &budget, false)
}

// emptyDocument reports whether a document has comments at most: a separator at the beginning or
// the end of a file makes one.
func emptyDocument(doc *yaml.Node) bool {
	return len(doc.Content) != 1 || doc.Content[0].Kind == yaml.ScalarNode && doc.Content[0].ShortTag() == "!!null" &&
		doc.Content[0].Value == ""
}

// safely turns a panic of the YAML reader into an error: a spec file is foreign
// input.
func safely(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("yaml: cannot be read: %v", r)
		}
	}()
	return f()
}

// checkBytes reports the first byte that no spec file may hold.
func (d *decoder) checkBytes(data []byte) bool {
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		problem := ""
		switch {
		case r == utf8.RuneError && n == 1:
			problem = "not UTF-8"
		case r == 0:
			problem = "NUL is not allowed"
		case r < 0x20 && r != '\n' && r != '\r' && r != '\t' || r == 0x7f:
			problem = fmt.Sprintf("control character 0x%02x is not allowed", r)
		}
		if problem != "" {
			line := 1 + bytes.Count(data[:i], []byte("\n"))
			column := 1 + utf8.RuneCount(data[bytes.LastIndexByte(data[:i], '\n')+1:i])
			d.problems.add(Problem{File: d.file, Line: line, Column: column, Text: problem})
			return false
		}
		i += n
	}
	return true
}

// syntax reports an error of the YAML reader, which names the line at best, often
// that of the value around the mistake and never the first; the column is where
// that line's text begins.
func (d *decoder) syntax(data []byte, err error) {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	p := Problem{File: d.file, Line: 1, Column: 1, Text: "not YAML: " + text}
	if m := regexp.MustCompile(`^line (\d+): (.*)$`).FindStringSubmatch(text); m != nil {
		p.Line, _ = strconv.Atoi(m[1])
		p.Text = "not YAML: " + m[2]
		p.Column = indentOf(data, p.Line)
	}
	if line := d.failingLine(data, err); line > 0 {
		p.Line, p.Column = line, indentOf(data, line)
	}
	if strings.Contains(text, "cannot start any token") {
		p.Hint = "YAML is indented with spaces, not tabs; a string that starts with @, ` or % needs quotes"
	}
	d.problems.add(p)
}

// maxLocated and maxLocatedSize bound the lines and bytes of a text in which a
// mistake is searched for: each line costs one reading.
const (
	maxLocated     = 1000
	maxLocatedSize = 64 << 10
)

// failingLine is the first line after which the text cannot end without the same error: the
// position of the mistake, or the beginning of an unclosed part. It is 0 if the text is too long
// to search.
func (d *decoder) failingLine(data []byte, err error) int {
	lines := bytes.SplitAfter(data, []byte("\n"))
	if len(lines) > maxLocated || len(data) > maxLocatedSize {
		return 0
	}
	what := complaint(err)
	end := len(data)
	for n := len(lines); n > 1; n-- {
		end -= len(lines[n-1])
		var all yaml.Node
		rest := yaml.NewDecoder(bytes.NewReader(data[:end]))
		found := safely(func() error { return rest.Decode(&all) })
		if found == nil {
			found = safely(func() error { return rest.Decode(&all) })
		}
		if found == nil || complaint(found) != what {
			return n
		}
	}
	return 1
}

// complaint is an error of the YAML reader without its line.
func complaint(err error) string {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if line, rest, ok := strings.Cut(text, ": "); ok && strings.HasPrefix(line, "line ") {
		return rest
	}
	return text
}

func indentOf(data []byte, line int) int {
	for range line - 1 {
		_, rest, ok := bytes.Cut(data, []byte("\n"))
		if !ok {
			return 1
		}
		data = rest
	}
	text, _, _ := bytes.Cut(data, []byte("\n"))
	return 1 + len(text) - len(bytes.TrimLeft(text, " "))
}

// resolve replaces aliases by their targets and limits the tree.
func (d *decoder) resolve(n *yaml.Node, depth int, budget *int, aliased bool) *yaml.Node {
	if depth > maxDepth {
		d.problem(nil, n, "nested too deeply", "")
		return nil
	}
	if aliased {
		if *budget--; *budget < 0 {
			d.problem(nil, n, "aliases expand to too many values", fmt.Sprintf("at most %d values", maxAliased))
			return nil
		}
	}
	if n.Kind == yaml.AliasNode {
		if n.Alias == nil {
			d.problem(nil, n, "alias without an anchor", "")
			return nil
		}
		return d.resolve(n.Alias, depth+1, budget, true)
	}
	out := n
	for i, child := range n.Content {
		r := d.resolve(child, depth+1, budget, aliased)
		if r == nil {
			return nil
		}
		if r != child {
			if out == n {
				c := *n
				c.Content = append([]*yaml.Node(nil), n.Content...)
				out = &c
			}
			out.Content[i] = r
		}
	}
	return out
}
