package api

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	pb "cantina/wire/cantinav1"
)

// object is a JSON object.
type object = map[string]any

// OpenAPI returns the description of /v1, as OpenAPI 3.1. It is made from the routes and the protobuf definition, so it
// has their names and types, not their comments.
func OpenAPI() []byte {
	d := document{paths: object{}, schemas: object{}, ids: map[string]bool{}}
	for _, r := range routes(&calls{}) {
		d.add(r.pattern, r.call, object{"application/json": object{"schema": d.ref(r.call.out)}})
	}
	lines := func(m proto.Message) object {
		schema := object{"schema": d.ref(m.ProtoReflect().Descriptor())} // of each line or event
		return object{"application/jsonl": schema, "text/event-stream": schema}
	}
	describe := func(in proto.Message) unary { return unary{in: in.ProtoReflect().Descriptor()} }
	d.add("GET /v1/events", describe(&pb.StreamEventsRequest{}), lines(&pb.StreamEventsResponse{}))
	output := lines(&pb.FollowOutputResponse{})
	output["application/json"] = object{"schema": d.ref((&pb.ReadOutputResponse{}).ProtoReflect().Descriptor())}
	output["application/octet-stream"] = object{}
	read := d.add("GET /v1/output", describe(&pb.ReadOutputRequest{}), output)
	for _, name := range []string{"follow", "raw"} {
		read["parameters"] = append(read["parameters"].([]any), parameter("query", name, object{"type": "boolean"}))
	}
	d.ref((&pb.ErrorDetail{}).ProtoReflect().Descriptor())
	d.schemas["Problem"] = object{"allOf": []any{object{"$ref": schemaPath + "ErrorDetail"}, object{"type": "object",
		"properties": object{"title": object{"type": "string"}, "status": object{"type": "integer"},
			"detail": object{"type": "string"}}, "required": []string{"title", "status", "detail"}}}}
	text, err := json.MarshalIndent(object{
		"openapi": "3.1.0",
		"info": object{"title": "cantina", "version": "v1",
			"license": object{"name": "Apache 2.0", "identifier": "Apache-2.0"}},
		"paths": d.paths,
		"components": object{"schemas": d.schemas,
			"responses": object{"Problem": object{"description": "The call failed.",
				"content": object{"application/problem+json": object{"schema": object{"$ref": schemaPath + "Problem"}}}}},
			"securitySchemes": object{"bearer": object{"type": "http", "scheme": "bearer"},
				"certificate": object{"type": "mutualTLS"}}},
		"security": []any{object{"bearer": []string{}}, object{"certificate": []string{}}, object{}},
	}, "", "  ")
	if err != nil {
		panic("api: the description is not JSON: " + err.Error())
	}
	return append(text, '\n')
}

const schemaPath = "#/components/schemas/"

// document collects the paths and the messages that they use.
type document struct {
	paths, schemas object
	ids            map[string]bool // names of operations
}

// add adds a path, and returns its operation.
func (d *document) add(pattern string, c unary, answer object) object {
	method, path, _ := strings.Cut(pattern, " ")
	id := strings.TrimSuffix(string(c.in.Name()), "Request")
	if d.ids[id] {
		id += strings.ToLower(method)
	}
	d.ids[id] = true
	parameters := []any{}
	inPath := pathNames(path)
	for _, name := range inPath {
		p := parameter("path", name, d.parameterSchema(c.in, name))
		p["required"] = true
		parameters = append(parameters, p)
	}
	op := object{"operationId": id, "responses": object{
		"200":     object{"description": "The call succeeded.", "content": answer},
		"default": object{"$ref": "#/components/responses/Problem"}}}
	if c.takeBody {
		content := object{"application/json": object{"schema": d.ref(c.in)}}
		if f := c.in.Fields().ByName("files"); f != nil {
			content["application/yaml"] = object{"schema": object{"type": "string"}}
		}
		op["requestBody"] = object{"content": content}
	} else {
		for _, name := range (&setter{m: newMessage(c.in)}).names() {
			if !slices.Contains(inPath, name) {
				parameters = append(parameters, parameter("query", name, d.parameterSchema(c.in, name)))
			}
		}
		if method == http.MethodGet {
			list := object{"type": "array", "items": object{"type": "string"}}
			p := parameter("query", "fields", list)
			p["style"], p["explode"] = "form", false
			parameters = append(parameters, p)
		}
	}
	op["parameters"] = parameters
	of, ok := d.paths[path].(object)
	if !ok {
		of = object{}
		d.paths[path] = of
	}
	of[strings.ToLower(method)] = op
	return op
}

func parameter(in, name string, schema object) object {
	return object{"in": in, "name": name, "schema": schema}
}

// newMessage returns an empty message, which only describes its fields.
func newMessage(d protoreflect.MessageDescriptor) protoreflect.Message {
	return dynamicpb.NewMessage(d)
}

// parameterSchema describes a field of a request that the path or the query names.
func (d *document) parameterSchema(m protoreflect.MessageDescriptor, name string) object {
	if _, f := (&setter{m: newMessage(m)}).find(protoreflect.Name(name)); f != nil {
		return d.field(f)
	}
	return object{"type": "string"}
}

// ref describes a message once, and returns the reference to it.
func (d *document) ref(m protoreflect.MessageDescriptor) object {
	if known, ok := wellKnown(m); ok {
		return known
	}
	name := string(m.Name())
	if _, ok := d.schemas[name]; !ok {
		properties := object{}
		d.schemas[name] = object{"type": "object", "properties": properties} // before its fields: messages may be nested
		for i := range m.Fields().Len() {
			f := m.Fields().Get(i)
			properties[string(f.Name())] = d.field(f)
		}
	}
	return object{"$ref": schemaPath + name}
}

// wellKnown describes the messages of protobuf that have a JSON form of their own.
func wellKnown(m protoreflect.MessageDescriptor) (object, bool) {
	schema, ok := map[protoreflect.FullName]object{
		timestampName:              {"type": "string", "format": "date-time"},
		"google.protobuf.Duration": {"type": "string", "pattern": `^-?[0-9]+(\.[0-9]+)?s$`},
		"google.protobuf.Struct":   {"type": "object"},
		"google.protobuf.Value":    {},
	}[m.FullName()]
	return maps.Clone(schema), ok
}

// field describes a field. In answers, a message that is not set is null.
func (d *document) field(f protoreflect.FieldDescriptor) object {
	if f.IsMap() {
		return object{"type": "object", "additionalProperties": d.single(f.MapValue())}
	}
	if f.IsList() {
		return object{"type": "array", "items": d.single(f)}
	}
	one := d.single(f)
	if f.Message() != nil && len(one) > 0 {
		return object{"anyOf": []any{one, object{"type": "null"}}}
	}
	return one
}

func (d *document) single(f protoreflect.FieldDescriptor) object {
	switch f.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return d.ref(f.Message())
	case protoreflect.EnumKind:
		var names []string
		for i := range f.Enum().Values().Len() {
			names = append(names, string(f.Enum().Values().Get(i).Name()))
		}
		return object{"type": "string", "enum": names}
	case protoreflect.BoolKind:
		return object{"type": "boolean"}
	case protoreflect.StringKind:
		return object{"type": "string"}
	case protoreflect.BytesKind:
		return object{"type": "string", "contentEncoding": "base64"}
	case protoreflect.DoubleKind, protoreflect.FloatKind:
		return object{"type": "number"}
	case protoreflect.Int64Kind, protoreflect.Uint64Kind, protoreflect.Sint64Kind, protoreflect.Fixed64Kind,
		protoreflect.Sfixed64Kind:
		// The numbers of a browser end at 2⁵³.
		return object{"type": "string", "format": f.Kind().String()}
	}
	return object{"type": "integer", "format": f.Kind().String()}
}
