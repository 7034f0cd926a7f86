// Package trace sends spans of the way of work from the call of the API to the start of its process. They go by HTTP
// with protobuf (OpenTelemetry, "OTLP Specification").
//
//	api, auctioneer, executor: values and events ──► node ──► Tracer.Add ──► queue ──► collector
//
// All parts know the id of a task or an instance, and its trace is made of that id. So no message, row or context
// carries a trace (docs/decisions/0438). A nil *Tracer takes everything and sends nothing. Its methods do not wait,
// and may be called from any goroutine.
package trace

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	api "go.opentelemetry.io/otel/trace"
)

// Span is one step of work, which has ended.
type Span struct {
	// Work is the uid of a task, or the id of an instance.
	Work string
	Name string
	// Root is set for the first step of the work; the others are below it.
	Root       bool
	Begin, End time.Time
	// Attributes are pairs of a key and a value.
	Attributes []string
}

// Tracer sends spans. Open makes one.
type Tracer struct {
	provider *sdk.TracerProvider
	tracer   api.Tracer
}

// closeTime is how long the spans of a queue may be sent at the end.
const closeTime = 2 * time.Second

// ErrEndpoint reports an address of a collector that cannot be used.
var ErrEndpoint = errors.New("must be http://HOST:PORT or https://HOST:PORT")

// Open prepares a tracer to the collector at endpoint, a URL; without a path, the spans go to /v1/traces. The
// variables OTEL_* of the process have all other settings. It connects when there are spans.
func Open(ctx context.Context, endpoint, service, build string, log *slog.Logger) (*Tracer, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, ErrEndpoint
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/traces"
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(u.String()))
	if err != nil {
		return nil, fmt.Errorf("traces to %s: %w", u.Redacted(), err)
	}
	about, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", service),
		attribute.String("service.version", build)), resource.WithHost(), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("traces are not sent", "error", err) }))
	p := sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(about), sdk.WithIDGenerator(ids{}))
	return &Tracer{p, p.Tracer("cantina")}, nil
}

// Run returns when ctx is done and the queued spans are sent, or cannot be.
func (t *Tracer) Run(ctx context.Context) error {
	<-ctx.Done()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	_ = t.provider.Shutdown(last) // the error handler has reported why spans are lost
	return ctx.Err()
}

// Add queues a span. When the queue is full, the span is dropped.
func (t *Tracer) Add(s Span) {
	if t == nil || s.Work == "" {
		return
	}
	id, root := traceOf(s.Work)
	ctx := context.WithValue(context.Background(), work{}, s.Work)
	if !s.Root {
		ctx = api.ContextWithRemoteSpanContext(ctx, api.NewSpanContext(api.SpanContextConfig{TraceID: id, SpanID: root,
			TraceFlags: api.FlagsSampled, Remote: true}))
	}
	attributes := make([]attribute.KeyValue, 0, len(s.Attributes)/2)
	for i := 0; i+1 < len(s.Attributes); i += 2 {
		attributes = append(attributes, attribute.String("cantina."+s.Attributes[i], s.Attributes[i+1]))
	}
	_, span := t.tracer.Start(ctx, s.Name, api.WithTimestamp(s.Begin), api.WithAttributes(attributes...))
	span.End(api.WithTimestamp(s.End))
}

// work is the key of a root's work in a context.
type work struct{}

// traceOf is the trace of work, and its root. An id of 16 bytes in hexadecimal is its own trace.
func traceOf(w string) (id api.TraceID, root api.SpanID) {
	sum := sha256.Sum256([]byte(w))
	copy(root[:], sum[16:])
	id, err := api.TraceIDFromHex(w)
	if err != nil {
		copy(id[:], sum[:])
	}
	return id, root
}

// ids makes the ids of spans: a root's of its work, the others at random.
type ids struct{}

// NewIDs implements sdk.IDGenerator.
func (ids) NewIDs(ctx context.Context) (api.TraceID, api.SpanID) {
	w, _ := ctx.Value(work{}).(string) // Add has set it
	return traceOf(w)
}

// NewSpanID implements sdk.IDGenerator.
func (ids) NewSpanID(context.Context, api.TraceID) (id api.SpanID) {
	for !id.IsValid() {
		binary.LittleEndian.PutUint64(id[:], rand.Uint64())
	}
	return id
}
