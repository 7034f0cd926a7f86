package store

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"google.golang.org/protobuf/proto"

	"cantina/fence"
	"cantina/internal/text"
	"cantina/store/head"
	"cantina/store/storepb"
)

// castagnoli returns CRC-32C over the content of a record.
func castagnoli(schema uint32, kind string, payload []byte) uint32 {
	t := crc32.MakeTable(crc32.Castagnoli)
	var b [8]byte
	binary.BigEndian.PutUint32(b[:4], schema)
	binary.BigEndian.PutUint32(b[4:], uint32(len(kind)))
	sum := crc32.Update(0, t, b[:])
	sum = crc32.Update(sum, t, []byte(kind))
	return crc32.Update(sum, t, payload)
}

// Encode wraps the payload of one row in a Record: the version of its schema (from 1), its kind in
// domain words, and a checksum. Same input, same bytes.
func Encode(schema uint32, kind string, payload []byte) []byte {
	kind = text.Clean(kind)
	return marshal(&storepb.Record{Schema: schema, Kind: kind, Payload: payload, Crc: castagnoli(schema, kind, payload)})
}

// marshal cannot fail: the messages have no required fields, and every string in
// them went through strings.ToValidUTF8.
func marshal(m proto.Message) []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic(fmt.Sprintf("marshal %T: %v", m, err))
	}
	return b
}

// Decode is the inverse of Encode. The error wraps ErrCorrupt.
func Decode(value []byte) (schema uint32, kind string, payload []byte, err error) {
	var r storepb.Record
	if err := proto.Unmarshal(value, &r); err != nil {
		return 0, "", nil, fmt.Errorf("decode %d bytes: %w: %v", len(value), ErrCorrupt, err)
	}
	if r.Schema == 0 || r.Kind == "" {
		return 0, "", nil, fmt.Errorf("decode %d bytes: no schema or kind: %w", len(value), ErrCorrupt)
	}
	if got := castagnoli(r.Schema, r.Kind, r.Payload); got != r.Crc {
		return 0, "", nil, fmt.Errorf("decode %s: checksum %08x, want %08x: %w", r.Kind, got, r.Crc, ErrCorrupt)
	}
	return r.Schema, r.Kind, r.Payload, nil
}

const (
	kindHead     = "head"
	kindElection = "election"
	kindMarker   = "manifest"
	kindStep     = "manifest_step"
)

// Open decodes a Record of a known kind, schema 1, into m. The error wraps ErrCorrupt.
func Open(value []byte, want string, m proto.Message) error {
	schema, kind, payload, err := Decode(value)
	if err != nil {
		return err
	}
	if kind != want || schema != 1 {
		return fmt.Errorf("record is %s version %d, want %s version 1: %w", kind, schema, want, ErrCorrupt)
	}
	if err := proto.Unmarshal(payload, m); err != nil {
		return fmt.Errorf("decode %s: %w: %v", want, ErrCorrupt, err)
	}
	return nil
}

func encodeHead(h head.Head) []byte { return Encode(1, kindHead, marshal(protoHead(h))) }

func protoHead(h head.Head) *storepb.Head {
	return &storepb.Head{Epoch: h.Term.Epoch, Revision: h.Term.Revision, Seq: h.Seq, Attempt: h.Attempt,
		Restored: h.Restored, Cluster: string(h.Cluster), Began: h.Began}
}

func headOf(p *storepb.Head) head.Head {
	return head.Head{
		Term: fence.Term{Epoch: p.GetEpoch(), Revision: p.GetRevision()}, Seq: p.GetSeq(), Attempt: p.GetAttempt(),
		Restored: p.GetRestored(),
		Cluster:  fence.Cluster(p.GetCluster()),
		Began:    p.GetBegan(),
	}
}

func decodeHead(value []byte) (head.Head, error) {
	var p storepb.Head
	if err := Open(value, kindHead, &p); err != nil {
		return head.Head{}, fmt.Errorf("head record: %w", err)
	}
	return headOf(&p), nil
}

func encodeElection(l Leader) []byte {
	addresses := make([]string, len(l.Addresses))
	for i, a := range l.Addresses {
		addresses[i] = text.Clean(a)
	}
	return Encode(1, kindElection, marshal(&storepb.Election{
		Id: text.Clean(l.ID), Addresses: addresses, Epoch: l.Term.Epoch, Revision: l.Term.Revision,
		Cluster: string(l.Cluster),
	}))
}

func decodeElection(value []byte) (Leader, error) {
	var p storepb.Election
	if err := Open(value, kindElection, &p); err != nil {
		return Leader{}, fmt.Errorf("election record: %w", err)
	}
	return Leader{Candidate: Candidate{ID: p.Id, Addresses: p.Addresses},
		Term: fence.Term{Epoch: p.Epoch, Revision: p.Revision}, Cluster: fence.Cluster(p.Cluster)}, nil
}
