// Package secret has the type of values that must not be printed: signing keys, passwords.
// Formatting, logging or encoding one by mistake, alone or deep inside another value, writes
// "[secret]".
//
// Wiring and shells use it. Code that needs the value calls Reveal, so that each such place can be
// found.
package secret

import (
	"fmt"
	"io"
	"log/slog"
)

// Shown replaces a value.
const Shown = "[secret]"

// Text is a value that is not printed. The zero value is none.
type Text struct {
	value *string // a pointer: fmt looks into fields that are not exported, past Format
}

// New keeps a value; an empty one is none.
func New(value string) Text {
	if value == "" {
		return Text{}
	}
	return Text{&value}
}

// Reveal returns the value; empty if there is none.
func (t Text) Reveal() string {
	if t.value == nil {
		return ""
	}
	return *t.value
}

// IsZero reports whether there is none.
func (t Text) IsZero() bool { return t.value == nil }

// Format implements fmt.Formatter for all verbs.
func (t Text) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, Shown) } // fmt has no use for an error

// LogValue implements slog.LogValuer.
func (t Text) LogValue() slog.Value { return slog.StringValue(Shown) }

// MarshalText implements encoding.TextMarshaler, and so JSON.
func (t Text) MarshalText() ([]byte, error) { return []byte(Shown), nil }
