package bundle

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "cantina/wire/cantinav1"
)

// Removed replaces a secret.
const Removed = "[removed]"

var (
	address = regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://)[^/\s"'@]*@`)
	query   = regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://[^\s"'?]*)\?[^\s"']*`)
	bearer  = regexp.MustCompile(`(?i)\b(bearer|basic)(\s+)[A-Za-z0-9._~+/=-]{8,}`)
	// named is a value with the name of a secret: password=x, "token": "x", API_KEY: x.
	named = regexp.MustCompile(`(?i)\b([a-z0-9_.-]*(?:password|passwd|secret|token|api_?key|private_?key|credentials?)"?` +
		`\s*[=:]\s*"?)[^\s"',;}]+`)
	key = regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|$)`)
)

// signs are in every line, in lower case, from which something may have to be removed: most lines have none, and the
// expressions are slow.
var signs = []string{"://", "bearer", "basic", "passw", "secret", "token", "key", "credential"}

// Text removes from a text the credentials and queries of URLs, authorisations, private keys, and values with the
// name of a secret.
func Text(s string) string {
	if strings.Contains(s, "PRIVATE KEY-----") {
		s = key.ReplaceAllString(s, Removed)
	}
	var b strings.Builder
	for line := range strings.Lines(s) {
		low := strings.ToLower(line)
		if slices.ContainsFunc(signs, func(sign string) bool { return strings.Contains(low, sign) }) {
			line = address.ReplaceAllString(line, "${1}"+Removed+"@")
			line = query.ReplaceAllString(line, "${1}?"+Removed)
			line = bearer.ReplaceAllString(line, "${1}${2}"+Removed)
			line = named.ReplaceAllString(line, "${1}"+Removed)
		}
		b.WriteString(line)
	}
	return b.String()
}

// Scrub returns a message without the parts that users fill with values of their own: variables, arguments of
// programs, annotations, results and output of work. Names and amounts stay.
func Scrub[M proto.Message](m M) M {
	m = proto.CloneOf(m)
	scrub(m.ProtoReflect())
	return m
}

// dropped are the fields that are emptied, wherever they stand.
var dropped = map[protoreflect.Name]bool{"value": true, "raw_value": true, "raw": true, "annotation": true,
	"result": true, "result_json": true, "lines": true, "content": true}

func scrub(m protoreflect.Message) {
	if !m.IsValid() {
		return
	}
	if r, ok := m.Interface().(*pb.Run); ok && len(r.Args) > 0 {
		r.Args = []string{fmt.Sprintf("[%d removed]", len(r.Args))}
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case dropped[f.Name()]:
			m.Clear(f)
			if f.Kind() == protoreflect.StringKind && !f.IsList() && !f.IsMap() {
				m.Set(f, protoreflect.ValueOfString(Removed))
			}
		case f.IsMap():
			if f.MapValue().Message() != nil {
				v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool { scrub(v.Message()); return true })
			}
		case f.Message() == nil:
		case f.IsList():
			for i := range v.List().Len() {
				scrub(v.List().Get(i).Message())
			}
		default:
			scrub(v.Message())
		}
		return true
	})
}
