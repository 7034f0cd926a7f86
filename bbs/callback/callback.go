// Package callback delivers the ends of tasks: one POST of JSON to the URL in the task's
// definition, signed, tried a few times, at least once. (Diego BBS, Task callbacks.)
//
//	Send ──► queue (bounded; excess ends are refused, and sent again by
//	         convergence) ──► worker: up to 3 attempts ──► Done
//
// The ends of one task are delivered one after the other: an end that replaces another waits for
// the attempt in progress, and replaces a delivery that has not begun. Before each attempt the
// sender checks with the board that the end is still to be delivered.
//
// The board passes tasks in and receives the results; package leader wires the two.
package callback

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"sync"
	"time"

	"cantina/internal/secret"
	"cantina/task"
)

// Config has the parts of a sender. Done and Wall are needed.
type Config struct {
	// Done receives the result of a run of attempts. It must not block for long.
	Done func(d task.Delivery, delivered bool, problem string)
	// Wanted reports whether an end is still to be delivered; nil = always.
	Wanted func(d task.Delivery) bool
	// Wall is the time of day, for the signature.
	Wall func() time.Time
	// Secret signs bodies; empty = unsigned.
	Secret secret.Text
	// Client sends; nil = one that follows no redirects.
	Client *http.Client
	// Attempts per run; 0 = 3. Timeout of one; 0 = 10 s.
	Attempts int
	Timeout  time.Duration
	// Workers send concurrently; 0 = 16. Queue limits the waiting ends; 0 = 4096.
	Workers int
	Queue   int
	Log     *slog.Logger
}

// Body is the body of a callback. (Diego BBS, TaskCallbackResponse.)
type Body struct {
	TaskGUID      string    `json:"task_guid"`
	TaskUID       string    `json:"task_uid"`
	Delivery      string    `json:"delivery"` // as in the header
	Verdict       int       `json:"verdict"`  // 1, and higher for an end that replaces an earlier one
	Domain        string    `json:"domain"`
	Outcome       string    `json:"outcome"`
	Failed        bool      `json:"failed"`
	FailureReason string    `json:"failure_reason"`
	Result        string    `json:"result"`
	ExitCode      int       `json:"exit_code"`
	Annotation    string    `json:"annotation,omitempty"`
	CreatedAt     time.Time `json:"created_at"`
	EndedAt       time.Time `json:"ended_at"`
}

// Headers of a call.
const (
	// HeaderSignature is "t=UNIX,v1=HEX": HMAC-SHA-256 of "UNIX.BODY" with the secret.
	HeaderSignature = "Cantina-Signature"
	// HeaderDelivery is the same for every repetition of one end of a task, and another for an
	// end that replaces it: task.Delivery.ID.
	HeaderDelivery = "Cantina-Delivery"
)

// Sender delivers. Its methods may be called at the same time.
type Sender struct {
	cfg   Config
	queue chan string // guids with something to deliver

	mu    sync.Mutex
	tasks map[string]*delivery // by guid: those in the queue, and those at work
}

// delivery has the undelivered ends of one task.
type delivery struct {
	now  task.Delivery // in progress; zero = none
	next *task.Task    // the newest that has not begun
}

// New returns a sender that does nothing until Run.
func New(cfg Config) *Sender {
	set := func(v *int, def int) {
		if *v <= 0 {
			*v = def
		}
	}
	set(&cfg.Attempts, 3)
	set(&cfg.Workers, 16)
	set(&cfg.Queue, 4096)
	if cfg.Timeout <= 0 {
		cfg.Timeout = 10 * time.Second
	}
	if cfg.Client == nil {
		cfg.Client = &http.Client{CheckRedirect: func(*http.Request,
			[]*http.Request) error {
			return http.ErrUseLastResponse
		}}
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Sender{cfg: cfg, queue: make(chan string, cfg.Queue), tasks: map[string]*delivery{}}
}

// Send takes the end of a task, and reports whether it has. When the queue is full it has not:
// the row stays RESOLVING, convergence demotes it and sends it again.
func (s *Sender) Send(t *task.Task) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.tasks[t.GUID]; l != nil {
		if l.now != t.Delivery() || l.next != nil { // else it is in progress
			l.next = t
		}
		return true
	}
	select {
	case s.queue <- t.GUID:
		s.tasks[t.GUID] = &delivery{next: t}
		return true
	default:
		s.cfg.Log.Warn("callback queue is full", "task", t.GUID)
		return false
	}
}

// Run sends until ctx is done.
func (s *Sender) Run(ctx context.Context) error {
	var workers sync.WaitGroup
	for range s.cfg.Workers {
		workers.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case guid := <-s.queue:
					for t := s.take(guid); t != nil; t = s.take(guid) {
						s.deliver(ctx, t)
					}
				}
			}
		})
	}
	workers.Wait()
	return nil
}

// take returns the next delivery of a task, nil if nothing is left.
func (s *Sender) take(guid string) *task.Task {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.tasks[guid]
	if l.next == nil {
		delete(s.tasks, guid)
		return nil
	}
	t := l.next
	l.now, l.next = t.Delivery(), nil
	return t
}

// wanted reports whether an end is still to be delivered.
func (s *Sender) wanted(d task.Delivery) bool {
	s.mu.Lock()
	replaced := s.tasks[d.GUID].next != nil
	s.mu.Unlock()
	return !replaced && (s.cfg.Wanted == nil || s.cfg.Wanted(d))
}

// errRetry marks an answer after which the next attempt is worth while.
var errRetry = errors.New("temporary")

// deliver makes one run of attempts and reports the result. A run that is cut off by ctx, or whose
// end is no longer wanted, reports nothing: convergence, or the newer end, continues.
func (s *Sender) deliver(ctx context.Context, t *task.Task) {
	d := t.Delivery()
	body, err := json.Marshal(bodyOf(t))
	if err != nil {
		s.cfg.Done(d, false, "encode: "+err.Error())
		return
	}
	var last error
	for range s.cfg.Attempts {
		if !s.wanted(d) {
			return
		}
		last = s.attempt(ctx, t, body)
		if ctx.Err() != nil {
			return
		}
		if !errors.Is(last, errRetry) {
			break
		}
	}
	problem := ""
	if last != nil {
		problem = last.Error()
	}
	s.cfg.Done(d, last == nil, problem)
}

// attempt sends once. Any answer except 503 and 504 is a delivery; those two, a timeout and a
// closed idle connection are retried in this run.
func (s *Sender) attempt(ctx context.Context, t *task.Task, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.Definition.CallbackURL, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("callback of task %s: %w", t.GUID, withoutURL(err))
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(HeaderDelivery, t.Delivery().ID())
	if !s.cfg.Secret.IsZero() {
		req.Header.Set(HeaderSignature, Sign([]byte(s.cfg.Secret.Reveal()), s.cfg.Wall(), body))
	}
	resp, err := s.cfg.Client.Do(req)
	if err != nil {
		if os.IsTimeout(err) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, io.EOF) ||
			errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("callback of task %s: %w: %w", t.GUID, errRetry, withoutURL(err))
		}
		return fmt.Errorf("callback of task %s: %w", t.GUID, withoutURL(err))
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10) // so that the connection can be used again
	if c := resp.StatusCode; c == http.StatusServiceUnavailable || c == http.StatusGatewayTimeout {
		return fmt.Errorf("callback of task %s: status %d: %w", t.GUID, c, errRetry)
	}
	return nil
}

// withoutURL removes the address from an error of package http: its credentials, query and
// fragment may be secrets.
func withoutURL(err error) error {
	if u := (*url.Error)(nil); errors.As(err, &u) {
		return u.Err
	}
	return err
}

func bodyOf(t *task.Task) Body {
	r := t.Result
	return Body{
		TaskGUID: t.GUID, TaskUID: t.UID, Delivery: t.Delivery().ID(), Verdict: t.Verdict, Domain: t.Domain,
		Outcome: t.Outcome.String(), Failed: r.Failed, FailureReason: r.Reason, Result: string(r.Output),
		ExitCode: t.ExitCode(), Annotation: t.Definition.Annotation, CreatedAt: t.Created, EndedAt: t.FirstCompleted,
	}
}

// Sign returns the value of HeaderSignature for a body at a given time.
func Sign(secret []byte, at time.Time, body []byte) string {
	stamp := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, secret)
	_, _ = mac.Write([]byte(stamp + "."))
	_, _ = mac.Write(body)
	return "t=" + stamp + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}
