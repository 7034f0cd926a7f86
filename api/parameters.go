package api

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"cantina/internal/text"
)

// parameters puts the path and the query of a request into its message. It
// returns the fields that the answer is to be cut down to.
//
// cursor and limit are those of the page; filter=a=b,c=d is the same as a=b&c=d; a
// name that is no field of the request is an error.
func parameters(r *http.Request, m proto.Message) (fields []string, err error) {
	set := &setter{m: m.ProtoReflect()}
	for key, values := range r.URL.Query() {
		switch key {
		case "fields":
			fields = strings.Split(strings.Join(values, ","), ",")
		case "filter":
			for _, pair := range strings.Split(strings.Join(values, ","), ",") {
				k, v, ok := strings.Cut(pair, "=")
				if !ok {
					return nil, invalid("filter", "%q is not name=value", text.Shorten(pair, 60))
				}
				set.set(k, v)
			}
		default:
			for _, v := range values {
				set.set(key, v)
			}
		}
	}
	for _, name := range pathNames(r.Pattern) {
		set.set(name, r.PathValue(name))
	}
	return fields, set.err
}

func pathNames(pattern string) []string {
	var out []string
	for _, part := range strings.Split(pattern, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			out = append(out, strings.TrimSuffix(name, "}"))
		}
	}
	return out
}

// setter sets fields of a message from texts and keeps the first error.
type setter struct {
	m   protoreflect.Message
	err error
}

// inner lists the fields whose own fields can be named directly.
func inner() []protoreflect.Name { return []protoreflect.Name{"page", "query", "subject"} }

func (s *setter) set(name, value string) {
	if s.err != nil {
		return
	}
	m, f := s.find(protoreflect.Name(name))
	if f == nil {
		s.err = &FieldError{Err: invalid(name, "unknown parameter"), Field: name, Hint: text.DidYouMean(name, s.names())}
		return
	}
	v, problem := scalar(f, value)
	switch {
	case problem != "":
		s.err = invalid(name, "%s", problem)
	case f.IsList():
		m.Mutable(f).List().Append(v)
	default:
		m.Set(f, v)
	}
}

// find looks for a field in the message and in its inner messages.
func (s *setter) find(name protoreflect.Name) (protoreflect.Message, protoreflect.FieldDescriptor) {
	if f := s.m.Descriptor().Fields().ByName(name); f != nil && settable(f) {
		return s.m, f
	}
	for _, in := range inner() {
		outer := s.m.Descriptor().Fields().ByName(in)
		if outer == nil || outer.Message() == nil {
			continue
		}
		if f := outer.Message().Fields().ByName(name); f != nil && settable(f) {
			return s.m.Mutable(outer).Message(), f
		}
	}
	return nil, nil
}

const timestampName = "google.protobuf.Timestamp"

func settable(f protoreflect.FieldDescriptor) bool {
	return !f.IsMap() && f.Kind() != protoreflect.BytesKind &&
		(f.Message() == nil || f.Message().FullName() == timestampName)
}

func (s *setter) names() []string {
	var out []string
	add := func(fields protoreflect.FieldDescriptors) {
		for i := range fields.Len() {
			if settable(fields.Get(i)) {
				out = append(out, string(fields.Get(i).Name()))
			}
		}
	}
	add(s.m.Descriptor().Fields())
	for _, in := range inner() {
		if f := s.m.Descriptor().Fields().ByName(in); f != nil && f.Message() != nil {
			add(f.Message().Fields())
		}
	}
	slices.Sort(out)
	return out
}

// scalar parses a text as the value of a field; problem describes an error.
func scalar(f protoreflect.FieldDescriptor, value string) (v protoreflect.Value, problem string) {
	switch f.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(text.Clean(value)), ""
	case protoreflect.BoolKind:
		b, err := strconv.ParseBool(value)
		if value == "" {
			b, err = true, nil
		}
		if err != nil {
			return v, "must be true or false"
		}
		return protoreflect.ValueOfBool(b), ""
	case protoreflect.Int32Kind:
		n, err := strconv.ParseInt(value, 10, 32)
		if err != nil {
			return v, "must be a whole number"
		}
		return protoreflect.ValueOfInt32(int32(n)), ""
	case protoreflect.Int64Kind:
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return v, "must be a whole number"
		}
		return protoreflect.ValueOfInt64(n), ""
	case protoreflect.MessageKind:
		return moment(value)
	}
	return v, "not allowed here"
}
