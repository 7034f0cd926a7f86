package cron

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// maxDepth bounds the nesting of a JSON item; none needs more than four.
const maxDepth = 8

// decode reads one JSON value with numbers kept as written. Unlike
// encoding/json alone it refuses a key that is given twice.
func decode(data []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	v, err := decodeValue(dec, "", 0)
	if err != nil {
		return nil, err
	}
	if rest := bytes.TrimSpace(data[dec.InputOffset():]); len(rest) > 0 {
		return nil, syntax("", "something follows the JSON value")
	}
	return v, nil
}

func decodeValue(dec *json.Decoder, path string, depth int) (any, error) {
	if depth > maxDepth {
		return nil, syntax(path, "nested too deeply")
	}
	tok, err := dec.Token()
	if err != nil {
		return nil, syntax(path, "not valid JSON: %v", err)
	}
	switch tok {
	case json.Delim('{'):
		return decodeObject(dec, path, depth)
	case json.Delim('['):
		list := []any{}
		for dec.More() {
			v, err := decodeValue(dec, path, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err = dec.Token()
		if err != nil {
			return nil, syntax(path, "not valid JSON: %v", err)
		}
		return list, nil
	}
	return tok, nil
}

func decodeObject(dec *json.Decoder, path string, depth int) (any, error) {
	out := map[string]any{}
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return nil, syntax(path, "not valid JSON: %v", err)
		}
		key, _ := tok.(string)
		if _, double := out[key]; double {
			return nil, syntax(join(path, key), "given twice")
		}
		out[key], err = decodeValue(dec, join(path, key), depth+1)
		if err != nil {
			return nil, err
		}
	}
	if _, err := dec.Token(); err != nil {
		return nil, syntax(path, "not valid JSON: %v", err)
	}
	return out, nil
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// integer accepts the whole numbers that JSON and YAML decoders produce; a
// number with a fraction or exponent is none.
func integer(value any) (int64, bool) {
	switch v := value.(type) {
	case json.Number:
		n, err := strconv.ParseInt(v.String(), 10, 64)
		return n, err == nil
	case int:
		return int64(v), true
	case int64:
		return v, true
	case int32:
		return int64(v), true
	case uint64:
		return int64(v), v <= math.MaxInt64
	case uint:
		return int64(v), uint64(v) <= math.MaxInt64
	}
	return 0, false
}

// show prints a value as the author wrote it, cut to a readable length.
func show(value any) string {
	text := fmt.Sprint(value)
	if b, err := json.Marshal(value); err == nil {
		text = string(b)
	}
	if len(text) > 40 {
		text = text[:40] + "…"
	}
	return text
}
