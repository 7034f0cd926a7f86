package spec

import (
	"fmt"
	"strings"
	"testing"
)

func BenchmarkThreeMegabytes(b *testing.B) {
	var text strings.Builder
	n := 0
	for text.WriteString("tasks:\n"); text.Len() < 3<<20; n++ {
		fmt.Fprintf(&text, "  t%d:\n    command: [/bin/echo, 'hello %d']\n    env: {A: 'b $c'}\n    memory: 64Mi\n", n, n)
	}
	data := []byte(text.String())
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse("f", "", data, testTimes()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(n), "tasks")
}
