package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// docs/openapi.json is the description that a server sends; CANTINA_UPDATE=1 writes it.
func TestOpenAPIIsUpToDate(t *testing.T) {
	const path = "../docs/openapi.json"
	old, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if bytes.Equal(old, OpenAPI()) {
		return
	}
	if os.Getenv("CANTINA_UPDATE") == "" {
		t.Fatalf("%s is old: run CANTINA_UPDATE=1 go test ./api -run OpenAPI", path)
	}
	if err := os.WriteFile(path, OpenAPI(), 0o644); err != nil {
		t.Fatal(err)
	}
}

func described(t *testing.T) object {
	t.Helper()
	var doc object
	if err := json.Unmarshal(OpenAPI(), &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// TestOpenAPIHasEachPath: each row of the table in docs/api.md is described, with an operation id of its own, and each
// reference leads to a schema.
func TestOpenAPIHasEachPath(t *testing.T) {
	doc := described(t)
	paths := doc["paths"].(object)
	page, err := os.ReadFile("../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	undescribed := map[string]string{"/v1/bistro": "the queries of another program", "/v1/schema/cantina.json": "a schema",
		"/v1/openapi.json": "this description"}
	rows := 0
	for line := range strings.Lines(string(page)) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		for _, cell := range strings.Split(strings.Split(line, "|")[1], ", ") {
			method, path, ok := strings.Cut(strings.Trim(cell, " `"), " /v1/")
			if path = "/v1/" + path; !ok || undescribed[path] != "" {
				continue
			}
			rows++
			if of, ok := paths[path].(object); !ok || of[strings.ToLower(method)] == nil {
				t.Errorf("no description of %s %s", method, path)
			}
		}
	}
	if rows < 50 {
		t.Errorf("docs/api.md has %d paths", rows)
	}
	ids := map[any]bool{}
	for path, of := range paths {
		for method, op := range of.(object) {
			id := op.(object)["operationId"]
			if ids[id] {
				t.Errorf("%s %s: another operation is named %s", method, path, id)
			}
			ids[id] = true
		}
	}
	schemas := doc["components"].(object)["schemas"].(object)
	for _, part := range strings.Split(string(OpenAPI()), `"$ref": "`)[1:] {
		ref, _, _ := strings.Cut(part, `"`)
		name, isSchema := strings.CutPrefix(ref, schemaPath)
		if isSchema && schemas[name] == nil {
			t.Errorf("no schema %s", name)
		}
	}
}

// TestOpenAPIDescribesAnswers: the JSON of each answer, with all fields set and with none, fits its schema.
func TestOpenAPIDescribesAnswers(t *testing.T) {
	doc := described(t)
	schemas := doc["components"].(object)["schemas"].(object)
	for _, r := range routes(&calls{}) {
		empty := dynamicpb.NewMessage(r.call.out)
		full := dynamicpb.NewMessage(r.call.out)
		fill(full, 0)
		for _, m := range []proto.Message{empty, full} {
			var value any
			if err := json.Unmarshal(JSON(m), &value); err != nil {
				t.Fatal(err)
			}
			if problem := misfit(schemas, object{"$ref": schemaPath + string(r.call.out.Name())}, value); problem != "" {
				t.Errorf("%s: %s", r.pattern, problem)
			}
		}
	}
	if misfit(schemas, object{"$ref": schemaPath + "Task"}, object{"id": 1.0}) == "" {
		t.Error("a task with a number as its id fits")
	}
}

// fill sets all fields of a message, down to some depth.
func fill(m protoreflect.Message, depth int) {
	if string(m.Descriptor().FullName()) == "google.protobuf.Value" {
		m.Set(m.Descriptor().Fields().ByName("bool_value"), protoreflect.ValueOfBool(true))
		return
	}
	for i := range m.Descriptor().Fields().Len() {
		f := m.Descriptor().Fields().Get(i)
		switch {
		case f.Message() != nil && depth > 4, f.IsMap():
		case f.IsList():
			l := m.Mutable(f).List()
			e := l.NewElement()
			if f.Message() != nil {
				fill(e.Message(), depth+1)
			} else {
				e = some(f)
			}
			l.Append(e)
		case f.Message() != nil:
			fill(m.Mutable(f).Message(), depth+1)
		default:
			m.Set(f, some(f))
		}
	}
}

func some(f protoreflect.FieldDescriptor) protoreflect.Value {
	switch f.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString("text")
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte("bytes"))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(f.Enum().Values().Get(0).Number())
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(7)
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(7)
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(7)
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(7)
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(0.5)
	}
	panic(fmt.Sprintf("no value of %s", f.FullName()))
}

// misfit returns the first place at which a value is not as its schema demands.
func misfit(schemas, schema object, value any) string {
	if ref, ok := schema["$ref"].(string); ok {
		name := strings.TrimPrefix(ref, schemaPath)
		of, ok := schemas[name].(object)
		if !ok {
			return "no schema " + name
		}
		if problem := misfit(schemas, of, value); problem != "" {
			return name + ": " + problem
		}
		return ""
	}
	if any, ok := schema["anyOf"].([]any); ok {
		problem := ""
		for _, of := range any {
			if problem = misfit(schemas, of.(object), value); problem == "" {
				return ""
			}
		}
		return problem
	}
	kind := ""
	switch v := value.(type) {
	case nil:
		kind = "null"
	case bool:
		kind = "boolean"
	case string:
		kind = "string"
	case float64:
		kind = "number"
		if v == float64(int64(v)) && schema["type"] == "integer" {
			kind = "integer"
		}
	case []any:
		kind = "array"
		for _, e := range v {
			if items, ok := schema["items"].(object); ok {
				if problem := misfit(schemas, items, e); problem != "" {
					return "item: " + problem
				}
			}
		}
	case object:
		kind = "object"
		properties, ok := schema["properties"].(object)
		for k, e := range v {
			of, known := properties[k].(object)
			switch {
			case ok && !known:
				return "unknown field " + k
			case known:
				if problem := misfit(schemas, of, e); problem != "" {
					return k + ": " + problem
				}
			}
		}
	}
	if want, ok := schema["type"]; ok && want != kind {
		return fmt.Sprintf("is %s, not %v", kind, want)
	}
	return ""
}
