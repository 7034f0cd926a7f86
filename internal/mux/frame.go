package mux

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// A frame is: length of the rest (4 bytes), kind (1), id (4); then for a request the path, for a
// response the status (2); then the header and the body. Numbers are big-endian. Text is preceded
// by its length in two bytes; the header is a count (1) and as many pairs of texts.
type frame struct {
	answer bool
	id     uint32
	path   string
	status int
	header http.Header
	body   []byte
}

const (
	kindRequest = 1
	kindAnswer  = 2

	// maxFrame bounds a frame in bytes: a message of the calls and its header.
	maxFrame = 65 << 20
	// atOnce is how much room is made for a frame before its bytes have come.
	atOnce = 64 << 10
)

// errFrame reports bytes that are no frame: the connection ends.
var errFrame = errors.New("malformed frame")

// quiet are headers that a connection does not carry.
var quiet = map[string]bool{"User-Agent": true, "Accept-Encoding": true, "Date": true, "Content-Length": true}

// encode returns the bytes of a frame, or errFrame when it is too large to send.
func (f *frame) encode() ([]byte, error) {
	b := make([]byte, 4, 64+len(f.path)+len(f.body)+32*len(f.header))
	if f.answer {
		b = binary.BigEndian.AppendUint32(append(b, kindAnswer), f.id)
		b = binary.BigEndian.AppendUint16(b, uint16(f.status))
	} else {
		b = binary.BigEndian.AppendUint32(append(b, kindRequest), f.id)
		b = appendText(b, f.path)
	}
	count := len(b)
	b = append(b, 0)
	n := 0
	for k, vs := range f.header {
		if quiet[k] {
			continue
		}
		for _, v := range vs {
			b = appendText(appendText(b, k), v)
			n++
		}
	}
	if n > 255 || len(b)+len(f.body) > maxFrame {
		return nil, fmt.Errorf("%w: %d bytes and %d headers, at most %d and 255", errFrame, len(b)+len(f.body), n, maxFrame)
	}
	b[count] = byte(n)
	b = append(b, f.body...)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b, nil
}

// maxText is the longest path, name or value; a longer one is cut.
const maxText = 1<<16 - 1

func appendText(b []byte, s string) []byte {
	s = s[:min(len(s), maxText)]
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
}

// read reads the next frame. The error is errFrame for bytes that are none.
func read(r *bufio.Reader) (*frame, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint32(head[:]))
	if n > maxFrame {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", errFrame, n, maxFrame)
	}
	b, err := take(r, n)
	if err != nil {
		return nil, err
	}
	return decode(b)
}

// take reads n bytes; room for many is made as they come.
func take(r *bufio.Reader, n int) ([]byte, error) {
	if n <= atOnce {
		b := make([]byte, n)
		_, err := io.ReadFull(r, b)
		return b, err
	}
	var b bytes.Buffer
	if m, err := io.CopyN(&b, r, int64(n)); m < int64(n) {
		return nil, errors.Join(io.ErrUnexpectedEOF, err)
	}
	return b.Bytes(), nil
}

// decoder cuts a frame into its parts; bad is set at the first that is cut short.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) bytes(n int) []byte {
	if d.bad || len(d.b) < n {
		d.bad = true
		return nil
	}
	out := d.b[:n]
	d.b = d.b[n:]
	return out
}

func (d *decoder) number(size int) int {
	n := 0
	for _, x := range d.bytes(size) {
		n = n<<8 | int(x)
	}
	return n
}

func (d *decoder) text() string { return string(d.bytes(d.number(2))) }

func decode(b []byte) (*frame, error) {
	d := decoder{b: b}
	f := &frame{}
	kind := d.number(1)
	f.id = uint32(d.number(4))
	switch kind {
	case kindRequest:
		f.path = d.text()
	case kindAnswer:
		f.answer, f.status = true, d.number(2)
	default:
		return nil, fmt.Errorf("%w: kind %d", errFrame, kind)
	}
	n := d.number(1)
	f.header = make(http.Header, n)
	for range n {
		k := http.CanonicalHeaderKey(d.text())
		f.header[k] = append(f.header[k], d.text())
	}
	if d.bad || f.answer && (f.status < 100 || f.status > 999) || !f.answer && (f.path == "" || f.path[0] != '/') {
		return nil, fmt.Errorf("%w: cut short, or with a status or path that cannot be", errFrame)
	}
	f.body = d.b
	return f, nil
}
