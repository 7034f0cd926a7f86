package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// JSON prints a message as /v1, Connect and the CLI do: the names of the definition, every
// field there, no spaces. Revisions are texts (a browser's numbers end at 2⁵³),
// times RFC 3339 in UTC, durations seconds with an s.
func JSON(m proto.Message) []byte {
	raw, err := protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(m)
	if err != nil {
		// Only text that is not UTF-8 can do this; the converters leave none.
		panic("api: a message without a JSON form: " + err.Error())
	}
	var out bytes.Buffer
	if err := json.Compact(&out, raw); err != nil {
		panic("api: protojson wrote no JSON: " + err.Error())
	}
	return out.Bytes()
}

// jsonCodec has Connect's JSON answer with the names of /v1. Requests may have either.
type jsonCodec string

// Name implements connect.Codec.
func (c jsonCodec) Name() string { return string(c) }

// Marshal implements connect.Codec.
func (jsonCodec) Marshal(m any) ([]byte, error) {
	p, ok := m.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("%T is no message", m)
	}
	return JSON(p), nil
}

// Unmarshal implements connect.Codec.
func (jsonCodec) Unmarshal(text []byte, m any) error {
	p, ok := m.(proto.Message)
	if !ok {
		return fmt.Errorf("%T is no message", m)
	}
	return protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(text, p)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// A client that went away is no error of ours.
	_, _ = w.Write(append(body, '\n'))
}

// problem writes an error as application/problem+json (RFC 9457).
func (s *Server) problem(w http.ResponseWriter, r *http.Request, err error) {
	_, id := s.identify(r.Context())
	class, d := s.detail(err, id)
	body := map[string]any{}
	if json.Unmarshal(JSON(d), &body) != nil {
		body = map[string]any{"code": class.Code}
	}
	for k, v := range body {
		if v == "" || v == nil || v == float64(0) {
			delete(body, k)
		}
	}
	if list, ok := body["problems"].([]any); ok && len(list) == 0 {
		delete(body, "problems")
	}
	body["title"], body["status"], body["detail"] = class.Code, class.Status, s.say(err, class, id)
	text, merr := json.Marshal(body)
	if merr != nil {
		http.Error(w, merr.Error(), http.StatusInternalServerError)
		return
	}
	if d.Leader != "" {
		w.Header().Set(headerLeader, d.Leader)
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(class.Status)
	_, _ = w.Write(append(text, '\n'))
}
