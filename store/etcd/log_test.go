package etcd

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"go.uber.org/zap"
)

// TestALineOfEtcdIsBounded: a transaction of a thousand writes that took long is named, not
// printed.
func TestALineOfEtcdIsBounded(t *testing.T) {
	var b bytes.Buffer
	log := zap.New(core{log: slog.New(slog.NewTextHandler(&b, nil))})
	log.Warn("apply request took too long", zap.String("request", "txn:"+strings.Repeat("ü", 100_000)),
		zap.String("took", "2s"))
	if line := b.String(); len(line) > 2*maxField || !strings.Contains(line, "(200004 bytes)") ||
		!strings.Contains(line, "took=2s") || !strings.Contains(line, "txn:") {
		t.Errorf("%d bytes: %.200s", len(line), line)
	}
}
