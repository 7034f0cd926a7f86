// Package metric publishes the measurements of a process for monitoring: Prometheus metrics under
// /metrics, and profiles under /debug/pprof/, on a listener of their own. Parts of the process get
// its methods as functions, and know nothing of Prometheus. Names have units, as that project
// recommends ("Metric and label naming"). The pages for operators are in docs/metrics.md.
//
// A nil *Set takes everything and keeps nothing. Its methods may be called from any goroutine.
package metric

import (
	"net/http"
	"net/http/pprof"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"cantina/internal/guard"
)

// Sample is one value at the time of a request.
type Sample struct {
	Name, Help string
	// Label is the name of the sample's label, Of its value; empty = no label.
	Label, Of string
	Value     float64
	// Total is set for a value that only grows while the process, or its term, lasts.
	Total bool
}

// Set has the measurements of one process.
type Set struct {
	own *prometheus.Registry

	commitTook, commitWaited, commitTransitions, commitBytes prometheus.Histogram
	placementWaited, roundTook, callWaited, requestWaited    prometheus.Histogram
	requests                                                 *prometheus.CounterVec

	mu      sync.Mutex
	sources []func() []Sample
}

// New returns a set without samples.
func New() *Set {
	s := &Set{own: prometheus.NewRegistry()}
	commits := prometheus.ExponentialBuckets(1, 2, 13)
	sizes := prometheus.ExponentialBuckets(256, 4, 9)
	waits := prometheus.ExponentialBuckets(0.001, 2, 19) // to 262 s
	of := func(name, help string, buckets []float64) prometheus.Histogram {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
		s.own.MustRegister(h)
		return h
	}
	times := prometheus.ExponentialBuckets(0.0005, 2, 17) // to 32 s
	s.commitTook = of("cantina_store_commit_duration_seconds", "Time from the request of a commit to its outcome.", times)
	s.commitWaited = of("cantina_store_commit_wait_seconds",
		"Time that the oldest transition of a commit waited before it.", times)
	s.commitTransitions = of("cantina_store_commit_transitions", "Transitions in one commit.", commits)
	s.commitBytes = of("cantina_store_commit_bytes", "Size of the rows in one commit.", sizes)
	s.placementWaited = of("cantina_placement_wait_seconds",
		"Time from the request of an instance or task to the choice of its cell.", waits)
	s.roundTook = of("cantina_placement_round_duration_seconds", "Time of one round of placements.", times)
	s.callWaited = of("cantina_call_wait_seconds",
		"Time that a call of a cell waited until the leader had room for it.", times)
	s.requestWaited = of("cantina_api_response_seconds",
		"Time from a request to the beginning of its answer.", times)
	s.requests = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "cantina_api_requests_total",
		Help: "Answered requests of the API, by class of the HTTP status."}, []string{"status"})
	for _, class := range classes {
		s.requests.WithLabelValues(class)
	}
	s.own.MustRegister(s.requests, sampled{s})
	return s
}

// Committed records a commit: its duration, the wait of its oldest transition, and its size.
func (s *Set) Committed(took, waited time.Duration, transitions, bytes int) {
	if s == nil {
		return
	}
	s.commitTook.Observe(took.Seconds())
	s.commitWaited.Observe(waited.Seconds())
	s.commitTransitions.Observe(float64(transitions))
	s.commitBytes.Observe(float64(bytes))
}

// Placed records how long work waited for the choice of its cell.
func (s *Set) Placed(waited time.Duration) {
	if s != nil {
		s.placementWaited.Observe(waited.Seconds())
	}
}

// Round records how long a round of placements took.
func (s *Set) Round(took time.Duration) {
	if s != nil {
		s.roundTook.Observe(took.Seconds())
	}
}

// CallWaited records how long a call waited for room.
func (s *Set) CallWaited(d time.Duration) {
	if s != nil {
		s.callWaited.Observe(d.Seconds())
	}
}

// Watch has samples called at each request.
func (s *Set) Watch(samples func() []Sample) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sources = append(s.sources, samples)
}

// Handler serves /metrics and /debug/pprof/. The metrics include those of the Go runtime, of the
// process, and of etcd.
func (s *Set) Handler() http.Handler {
	mux := guard.NewMux()
	all := prometheus.Gatherers{prometheus.DefaultGatherer, s.own}
	mux.Handle("GET /metrics", promhttp.HandlerFor(all, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return mux
}

// sampled collects the samples of a set.
type sampled struct{ s *Set }

// Describe implements prometheus.Collector: the samples are known when they are made.
func (sampled) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c sampled) Collect(out chan<- prometheus.Metric) {
	c.s.mu.Lock()
	sources := c.s.sources
	c.s.mu.Unlock()
	for _, source := range sources {
		for _, x := range source() {
			var labels, values []string
			if x.Label != "" {
				labels, values = []string{x.Label}, []string{x.Of}
			}
			kind := prometheus.GaugeValue
			if x.Total {
				kind = prometheus.CounterValue
			}
			desc := prometheus.NewDesc(x.Name, x.Help, labels, nil)
			out <- prometheus.MustNewConstMetric(desc, kind, x.Value, values...)
		}
	}
}
