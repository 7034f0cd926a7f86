package etcd

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// core passes etcd's log lines of level warn and above to slog.
type core struct {
	log    *slog.Logger
	fields []zapcore.Field
}

// noise are log lines that every embedded member writes: each message, with a required part of its
// error.
var noise = map[string]string{
	"Running http and grpc server on single port. This is not recommended for production.": "",
	"simple token is not cryptographically signed":                                         "",
	// The first start is done before the first term is on disk; etcd tries again.
	"Failed to detect schema version":  "missing term information",
	"failed to update storage version": "missing term information",
	// The listener for other members is closed.
	"setting up serving from embedded etcd failed.": "use of closed network connection",
	// A learner is promoted as soon as it is ready.
	"rejecting promote learner: learner is not ready": "",
	// Revoking a lease that has run out meanwhile is no error.
	"failed to apply request": "lease not found",
}

func isNoise(e zapcore.Entry, all []slog.Attr) bool {
	want, ok := noise[e.Message]
	if !ok || want == "" {
		return ok
	}
	for _, a := range all {
		if a.Key == "error" && strings.Contains(a.Value.String(), want) {
			return true
		}
	}
	return false
}

func (c core) Enabled(l zapcore.Level) bool { return l >= zapcore.WarnLevel }

func (c core) With(fields []zapcore.Field) zapcore.Core {
	return core{c.log, append(c.fields[:len(c.fields):len(c.fields)], fields...)}
}

func (c core) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if !c.Enabled(e.Level) {
		return ce
	}
	return ce.AddCore(e, c)
}

func (c core) Write(e zapcore.Entry, fields []zapcore.Field) error {
	level := slog.LevelWarn
	if e.Level >= zapcore.ErrorLevel {
		level = slog.LevelError
	}
	if all := attrs(c.fields, fields); !isNoise(e, all) {
		c.log.LogAttrs(context.Background(), level, "etcd: "+e.Message, all...)
	}
	return nil
}

func (c core) Sync() error { return nil }

func attrs(groups ...[]zapcore.Field) []slog.Attr {
	var all []slog.Attr
	for _, fields := range groups {
		enc := zapcore.NewMapObjectEncoder()
		for _, f := range fields {
			f.AddTo(enc)
			v := enc.Fields[f.Key]
			if text, ok := v.(string); ok {
				v = shortened(text)
			}
			all = append(all, slog.Any(f.Key, v))
		}
	}
	return all
}

// maxField bounds the bytes of one field of a line: etcd prints each key of a transaction
// that took long.
const maxField = 1000

func shortened(text string) string {
	if len(text) <= maxField {
		return text
	}
	return fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(text[:maxField], ""), len(text))
}

// fuse replaces os.Exit and panic in etcd's logger: it remembers the first fatal error, and stops
// the goroutine that met it.
type fuse struct {
	once   sync.Once
	blown  chan struct{}
	reason string // written before blown is closed
}

func newFuse() *fuse { return &fuse{blown: make(chan struct{})} }

// blow records why the member is broken.
func (f *fuse) blow(reason string) {
	f.once.Do(func() {
		f.reason = reason
		close(f.blown)
	})
}

// OnWrite is called by zap after a fatal or panic line was written.
func (f *fuse) OnWrite(ce *zapcore.CheckedEntry, fields []zapcore.Field) {
	reason := ce.Message
	for _, a := range attrs(fields) {
		if a.Key == "error" {
			reason += ": " + a.Value.String()
		}
	}
	f.blow(reason)
	select {} // the code after this call in etcd assumes that the process has ended
}

func newLogger(log *slog.Logger, f *fuse) *zap.Logger {
	return zap.New(core{log: log}, zap.WithFatalHook(f), zap.WithPanicHook(f))
}
