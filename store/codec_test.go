package store

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"cantina/fence"
	"cantina/internal/text"
	"cantina/store/head"
	"cantina/store/storepb"
)

func TestRecordRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		schema := rapid.Uint32Min(1).Draw(rt, "schema")
		kind := rapid.StringN(1, 20, 40).Draw(rt, "kind")
		payload := rapid.SliceOf(rapid.Byte()).Draw(rt, "payload")
		value := Encode(schema, kind, payload)
		if !bytes.Equal(value, Encode(schema, kind, payload)) {
			rt.Fatal("same input, other bytes")
		}
		s, k, p, err := Decode(value)
		if err != nil || s != schema || k != text.Clean(kind) || !bytes.Equal(p, payload) {
			rt.Fatalf("%d %q %x, %v", s, k, p, err)
		}
		// Any one bit that flips is noticed, or changes nothing.
		i := rapid.IntRange(0, len(value)*8-1).Draw(rt, "bit")
		value[i/8] ^= 1 << (i % 8)
		s, k, p, err = Decode(value)
		if err == nil && (s != schema || k != text.Clean(kind) || !bytes.Equal(p, payload)) {
			rt.Fatalf("bit %d: taken for %d %q %x", i, s, k, p)
		}
		if err != nil && !errors.Is(err, ErrCorrupt) {
			rt.Fatal(err)
		}
	})
}

func TestDecodeRefuses(t *testing.T) {
	for name, value := range map[string][]byte{
		"nothing": nil, "text": []byte("hello"), "no schema": Encode(0, "k", nil), "no kind": Encode(1, "", nil),
		"cut": Encode(1, "kind", []byte("payload"))[:9],
	} {
		if _, _, _, err := Decode(value); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, value := range map[string][]byte{
		"another kind": Encode(1, "lrp", nil), "another version": Encode(2, kindHead, nil),
		"no message": Encode(1, kindHead, []byte{0xff}),
	} {
		if _, err := decodeHead(value); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestHeadAndElectionRoundTrip(t *testing.T) {
	h := head.Head{Term: fence.Term{Epoch: 1 << 40, Revision: 9}, Seq: 3, Attempt: 5, Restored: true}
	if got, err := decodeHead(encodeHead(h)); err != nil || got != h {
		t.Fatalf("%+v, %v", got, err)
	}
	l := Leader{Candidate: Candidate{ID: "s1", Addresses: []string{"a:1", "b:2"}}, Term: h.Term}
	got, err := decodeElection(encodeElection(l))
	if err != nil || got.ID != l.ID || got.Term != l.Term || len(got.Addresses) != 2 || got.Addresses[1] != "b:2" {
		t.Fatalf("%+v, %v", got, err)
	}
	bad := encodeElection(Leader{Candidate: Candidate{ID: "\xff", Addresses: []string{"\xfe"}}})
	if got, err := decodeElection(bad); err != nil || got.ID != "\uFFFD" {
		t.Fatalf("%+v, %v", got, err)
	}
}

// TestOpenTakesOneKindOfOneSchema: an intact record of another kind is corrupt too.
func TestOpenTakesOneKindOfOneSchema(t *testing.T) {
	payload := marshal(&storepb.Election{Id: "s"})
	for name, value := range map[string][]byte{
		"another kind":   Encode(1, kindStep, payload),
		"another schema": Encode(2, kindElection, payload),
		"no message":     Encode(1, kindElection, []byte{0xff}),
		"no record":      payload,
	} {
		if err := Open(value, kindElection, &storepb.Election{}); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var m storepb.Election
	if err := Open(Encode(1, kindElection, payload), kindElection, &m); err != nil || m.Id != "s" {
		t.Errorf("%v, %q", err, m.Id)
	}
}
