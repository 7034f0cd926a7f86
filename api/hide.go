package api

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"cantina/action"
	pb "cantina/wire/cantinav1"
)

// hidden is a definition as responses show it: without the values of variables, and without the
// credentials and queries of its URLs (action.Shown). Callers that may read the API may print its
// responses; values given to a program are not meant for that.
func hidden[M proto.Message](m M) M {
	m = proto.CloneOf(m) // it shares lists with the stored definition
	hide(m.ProtoReflect())
	return m
}

func hide(m protoreflect.Message) {
	if !m.IsValid() {
		return
	}
	if v, ok := m.Interface().(*pb.Variable); ok {
		if v.Value != "" || len(v.RawValue) > 0 {
			v.Value, v.RawValue = action.Secret, nil
		}
		return
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap():
			hideMap(f, v.Map())
		case f.IsList():
			for i := range v.List().Len() {
				if f.Message() != nil {
					hide(v.List().Get(i).Message())
				} else if f.Kind() == protoreflect.StringKind {
					v.List().Set(i, protoreflect.ValueOfString(action.Shown(v.List().Get(i).String())))
				}
			}
		case f.Message() != nil:
			hide(v.Message())
		case f.Kind() == protoreflect.StringKind:
			m.Set(f, protoreflect.ValueOfString(action.Shown(v.String())))
		}
		return true
	})
}

func hideMap(f protoreflect.FieldDescriptor, m protoreflect.Map) {
	m.Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
		switch {
		case f.MapValue().Message() != nil:
			hide(v.Message())
		case f.MapValue().Kind() == protoreflect.StringKind:
			m.Set(k, protoreflect.ValueOfString(action.Shown(v.String())))
		}
		return true
	})
}
