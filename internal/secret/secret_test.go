package secret

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// TestSecretsAreNeverPrinted tries all the ways in which a value gets into text by mistake.
func TestSecretsAreNeverPrinted(t *testing.T) {
	const value = "hunter2hunter2"
	s := New(value)
	type config struct {
		Name   string
		Secret Text
		Near   *Text
		secret Text
	}
	c := config{"name", s, &s, s}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
		for _, v := range []any{s, &s, c, &c, []Text{s}, map[string]Text{"a": s}} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
	}
	for _, h := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(h).Info("config", "secret", s, "config", c, "near", &c)
	}
	b, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	out.Write(b)
	for _, form := range []string{value, fmt.Sprintf("%x", value), fmt.Sprintf("%X", value), fmt.Sprint([]byte(value))} {
		if strings.Contains(out.String(), form) {
			t.Errorf("printed as %q:\n%s", form, &out)
		}
	}
	if s.Reveal() != value || s.IsZero() || !(Text{}).IsZero() {
		t.Error("the value is lost")
	}
}
