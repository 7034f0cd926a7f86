package batch

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ErrStatus reports a text that is no status.
var ErrStatus = errors.New("bad status")

// maxStatusText limits the parsed text, in bytes.
const maxStatusText = 64 << 10

// savedBackoffKey is private in Bistro; a task may not set it.
const savedBackoffKey = "__bistro_saved_backoff"

func labelBits(label string) (Bits, bool) {
	switch label {
	case "done":
		return Done, true
	case "incomplete":
		return Incomplete, true
	case "incomplete_backoff":
		return Incomplete | UsesBackoff | KeepBackoff, true
	case "error_backoff", "backoff":
		return Error | UsesBackoff, true
	case "failed":
		return Failed, true
	}
	return 0, false
}

// ParseStatus parses a task's output: a plain label, {"result": label}, or {"result_bits":
// number}, the latter two with "data" (an object). Bits take precedence over the label. It returns
// ErrStatus (Bistro statuses, the output of a task).
func ParseStatus(text []byte) (Report, error) {
	text = bytes.TrimRight(text, "\r\n")
	if len(text) > maxStatusText {
		return Report{}, fmt.Errorf("status of %d bytes: %w", len(text), ErrStatus)
	}
	if b, ok := labelBits(string(bytes.TrimSpace(text))); ok {
		return Report{Bits: b}, nil
	}
	var form struct {
		Result *json.RawMessage `json:"result"`
		Bits   *json.RawMessage `json:"result_bits"`
		Data   json.RawMessage  `json:"data"`
	}
	if err := json.Unmarshal(text, &form); err != nil {
		return Report{}, fmt.Errorf("neither a status word nor a JSON object: %w", ErrStatus)
	}
	var r Report
	var err error
	switch {
	case form.Bits != nil:
		r.Bits, err = parseBits(*form.Bits)
	case form.Result != nil:
		r.Bits, err = parseLabel(*form.Result)
	default:
		err = fmt.Errorf("no result and no result_bits: %w", ErrStatus)
	}
	if err != nil {
		return Report{}, err
	}
	r.Data, err = parseData(form.Data)
	return r, err
}

func parseLabel(raw json.RawMessage) (Bits, error) {
	var label string
	if json.Unmarshal(raw, &label) == nil {
		if b, ok := labelBits(label); ok {
			return b, nil
		}
	}
	return 0, fmt.Errorf("unknown result %s: %w", clip(raw), ErrStatus)
}

func parseBits(raw json.RawMessage) (Bits, error) {
	text := strings.Trim(string(raw), `"`)
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("result_bits %s is no number: %w", clip(raw), ErrStatus)
	}
	const allowed = currentStatusBits | UsesBackoff | KeepBackoff | Overwriteable
	b := Bits(n)
	switch current := b & currentStatusBits; {
	case n < 0 || n > 1<<16-1 || b&^allowed != 0:
		return 0, fmt.Errorf("result_bits %d has bits a task may not set: %w", n, ErrStatus)
	case current == 0 || current&(current-1) != 0:
		return 0, fmt.Errorf("result_bits %d must have exactly one of running, done, incomplete, failed, error: %w", n,
			ErrStatus)
	case current == Running:
		return 0, fmt.Errorf("result_bits %d means running, but the process has ended: %w", n, ErrStatus)
	}
	// A task is real: it may not call itself replaceable.
	return b &^ Overwriteable, nil
}

func parseData(raw json.RawMessage) ([]byte, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(raw, &object); err != nil {
		return nil, fmt.Errorf("data is not an object: %w", ErrStatus)
	}
	if _, ok := object[savedBackoffKey]; ok {
		delete(object, savedBackoffKey)
		var err error
		if raw, err = json.Marshal(object); err != nil {
			return nil, fmt.Errorf("data: %w", ErrStatus)
		}
	}
	if len(object) == 0 {
		return nil, nil
	}
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return nil, fmt.Errorf("data: %w", ErrStatus)
	}
	if b.Len() > MaxData {
		return nil, fmt.Errorf("data has %d bytes, at most %d are kept: %w", b.Len(), MaxData, ErrStatus)
	}
	return b.Bytes(), nil
}

// Judge makes a report of the end of an invocation and its last output. The worse of the two
// counts. An unrequested exit code of 0 ranks as done, a killed task is incomplete, and any other
// end is an error. If a task reports done, or incomplete, and ends worse than that, its progress
// and its data are kept. (Beyond Bistro, which ignores the exit code; ignoreExit restores that:
// the output counts, and no output is an error.)
func Judge(e Ended, text []byte, ignoreExit bool) Report {
	r := judge(e, text, ignoreExit)
	r.ExitCode, r.Signal = e.ExitCode, e.Signal
	return r
}

func judge(e Ended, text []byte, ignoreExit bool) Report {
	end := e.report(ignoreExit)
	if len(bytes.TrimSpace(text)) == 0 {
		return end
	}
	wrote, err := ParseStatus(text)
	switch {
	case err != nil && e.Again != AgainNot:
		return end // it may have been ended in the middle of it
	case err != nil:
		return Report{Bits: Error | UsesBackoff, Reason: fmt.Sprintf("cannot read status %s: %v", clip(text), err)}
	case ignoreExit || wrote.Bits.badness() >= end.Bits.badness():
		wrote.Reason, wrote.Moved = wrote.Bits.reported(), end.Moved
		return wrote
	}
	end.Data = wrote.Data
	end.Reason += "; it had written the status " + wrote.Bits.label()
	return end
}

// report is the report of the end alone.
func (e Ended) report(ignoreExit bool) Report {
	switch {
	case e.Again == AgainNow:
		return Report{Bits: Incomplete, Reason: e.Reason, Moved: true}
	case e.Again == AgainLater:
		return Report{Bits: Incomplete | UsesBackoff | KeepBackoff, Reason: e.Reason}
	case e.TimedOut:
		return Report{Bits: Error | UsesBackoff, Reason: cmp.Or(e.Reason, "time-out")}
	case e.Killed:
		return Report{Bits: Incomplete | UsesBackoff | KeepBackoff,
			Reason: cmp.Or(e.Reason, "Task killed, no status returned")}
	case ignoreExit:
		return Report{Bits: Error | UsesBackoff, Reason: "Failed to read a status"}
	case e.Reason != "":
		return Report{Bits: Error | UsesBackoff, Reason: e.Reason}
	case e.Signal != 0:
		return Report{Bits: Error | UsesBackoff, Reason: fmt.Sprintf("ended by signal %d", e.Signal)}
	case e.ExitCode != 0:
		return Report{Bits: Error | UsesBackoff, Reason: fmt.Sprintf("exit code %d", e.ExitCode)}
	}
	return Report{Bits: Done}
}

// reported describes the program's own report, if that is worse than its end.
func (b Bits) reported() string {
	switch {
	case b&Failed != 0:
		return "the program reported failed"
	case b&Error != 0:
		return "the program reported an error"
	}
	return ""
}

// badness orders done, incomplete, error and failed.
func (b Bits) badness() int {
	return slices.Index([]Bits{Done, Incomplete, Error, Failed}, b&currentStatusBits)
}

// label is the word for a status.
func (b Bits) label() string {
	return [...]string{"done", "incomplete", "error", "failed"}[b.badness()]
}

// NeverStarted is the report of an invocation that certainly did not start: nothing
// is stored for it, and it may run again at once.
func NeverStarted(reason string) Report {
	return Report{Bits: Error | Overwriteable, Reason: reason}
}

// LostReport is the report of an invocation whose cell process is certainly dead.
func LostReport(reason string) Report {
	return Report{Bits: Error | UsesBackoff | Overwriteable | HasSavedBackoff, Reason: reason}
}

// clip shortens a text for a message.
func clip(text []byte) string {
	const most = 200
	if len(text) > most {
		return strconv.Quote(string(text[:most])) + "…"
	}
	return strconv.Quote(string(text))
}
