// Package callback delivers the ends of tasks: one POST of JSON to the URL that the
// task's definition names, signed, tried a few times, at least once. (Diego BBS,
// Task callbacks.)
//
//	Send ──► queue (bounded; what does not fit is dropped, and sent again by
//	         convergence) ──► worker: up to 3 attempts ──► Done
//
// The board hands tasks in and is told what came of them; cmd wires the two.
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
	"os"
	"strconv"
	"sync"
	"time"

	"cantina/internal/secret"
	"cantina/task"
)

// Config is what a sender is made of. Done and Wall are needed.
type Config struct {
	// Done is told what came of a run of attempts. It must not block for long.
	Done func(guid, uid string, delivered bool, problem string)
	// Wall is the time of day, for the signature.
	Wall func() time.Time
	// Secret signs bodies; empty = unsigned.
	Secret secret.Text
	// Client sends; nil = one of its own that follows no redirects.
	Client *http.Client
	// Attempts per run; 0 = 3. Timeout of one; 0 = 10 s.
	Attempts int
	Timeout  time.Duration
	// Workers send side by side; 0 = 16. Queue bounds what waits; 0 = 4096.
	Workers int
	Queue   int
	Log     *slog.Logger
}

// Body is what is sent. (Diego BBS, TaskCallbackResponse.)
type Body struct {
	TaskGUID      string    `json:"task_guid"`
	TaskUID       string    `json:"task_uid"`
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
	// HeaderDelivery is the task's uid: the same for every repetition.
	HeaderDelivery = "Cantina-Delivery"
)

// Sender delivers. Its methods may be called at the same time.
type Sender struct {
	cfg   Config
	queue chan *task.Task
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
		cfg.Client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Sender{cfg: cfg, queue: make(chan *task.Task, cfg.Queue)}
}

// Send queues the end of a task. When the queue is full it is dropped: the row stays
// RESOLVING, convergence demotes it and sends it again.
func (s *Sender) Send(t *task.Task) {
	select {
	case s.queue <- t:
	default:
		s.cfg.Log.Warn("callback queue is full", "task", t.GUID)
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
				case t := <-s.queue:
					s.deliver(ctx, t)
				}
			}
		})
	}
	workers.Wait()
	return nil
}

// errRetry marks an answer after which the next attempt is worth while.
var errRetry = errors.New("temporary")

// deliver makes one run of attempts and tells what came of it. A run that is cut
// off by ctx tells nothing: convergence repeats it.
func (s *Sender) deliver(ctx context.Context, t *task.Task) {
	body, err := json.Marshal(bodyOf(t))
	if err != nil {
		s.cfg.Done(t.GUID, t.UID, false, "encode: "+err.Error())
		return
	}
	var last error
	for range s.cfg.Attempts {
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
	s.cfg.Done(t.GUID, t.UID, last == nil, problem)
}

// attempt sends once. Any answer but 503 and 504 is a delivery; those two, a
// time-out and a closed idle connection are worth another attempt in this run.
func (s *Sender) attempt(ctx context.Context, t *task.Task, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.Definition.CallbackURL, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("callback of task %s: %w", t.GUID, err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(HeaderDelivery, t.UID)
	if !s.cfg.Secret.IsZero() {
		req.Header.Set(HeaderSignature, Sign([]byte(s.cfg.Secret.Reveal()), s.cfg.Wall(), body))
	}
	resp, err := s.cfg.Client.Do(req)
	if err != nil {
		if os.IsTimeout(err) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, io.EOF) || errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("callback of task %s: %w: %w", t.GUID, errRetry, err)
		}
		return fmt.Errorf("callback of task %s: %w", t.GUID, err)
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10) // so that the connection can be used again
	if c := resp.StatusCode; c == http.StatusServiceUnavailable || c == http.StatusGatewayTimeout {
		return fmt.Errorf("callback of task %s: status %d: %w", t.GUID, c, errRetry)
	}
	return nil
}

func bodyOf(t *task.Task) Body {
	r := t.Result
	return Body{
		TaskGUID: t.GUID, TaskUID: t.UID, Domain: t.Domain, Outcome: t.Outcome.String(), Failed: r.Failed, FailureReason: r.Reason, Result: string(r.Output),
		ExitCode: r.ExitCode, Annotation: t.Definition.Annotation, CreatedAt: t.Created, EndedAt: t.FirstCompleted,
	}
}

// Sign returns the value of HeaderSignature for a body at a moment.
func Sign(secret []byte, at time.Time, body []byte) string {
	stamp := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, secret)
	_, _ = mac.Write([]byte(stamp + "."))
	_, _ = mac.Write(body)
	return "t=" + stamp + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}
