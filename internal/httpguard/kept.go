package httpguard

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/outcome"
)

// Answer is a whole answer of a handler.
type Answer struct {
	Status int // 0 if the handler has left the answer to a middleware outside
	Header http.Header
	Outer  http.Header // those of Header that a middleware outside had set before; it sets them again
	Body   []byte
	Silent bool // the handler has written nothing, which means Status

	Unrouted bool // the router has found no route, and answers itself
}

// Write writes a, and in place of headers that w has already those of a.
func (a Answer) Write(w http.ResponseWriter) {
	maps.Copy(w.Header(), a.Header)
	w.WriteHeader(a.Status)
	_, _ = w.Write(a.Body) // an error here means that the client has gone
}

// refused reports whether a asks the client to come again, and so says that
// nothing was done. A success with a Retry-After is a result: the client looks
// at it later.
func (a Answer) refused() bool {
	switch a.Status {
	case http.StatusUnauthorized, http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	case outcome.ClientGone:
		return false
	}
	return a.Status >= 400 && a.Header.Get("Retry-After") != ""
}

// failed reports whether a is a server error, none of the handler's, or for a
// client that has gone.
func (a Answer) failed() bool {
	return a.Status < 200 || a.Status >= 500 || a.Status == outcome.ClientGone
}

// cut reports whether a is not as long as it says, so that its client cannot
// have got a whole answer.
func (a Answer) cut() bool {
	n := a.Header.Get("Content-Length")
	return n != "" && a.Status != http.StatusNotModified && n != strconv.Itoa(len(a.Body))
}

// keptHeaders are the headers that are always kept.
var keptHeaders = []string{
	"Content-Type", "Content-Language", "Content-Disposition", "Content-Encoding", "Content-Range", "Location", "Allow",
	"Etag", "Last-Modified", "Link", "Cache-Control", "Vary", "X-Content-Type-Options",
}

// neverKept are the headers that are for one client, one connection or one
// moment.
var neverKept = []string{
	"Set-Cookie", "Authorization", "Proxy-Authorization", "Authentication-Info", "Proxy-Authentication-Info",
	"Www-Authenticate", "Proxy-Authenticate", "Connection", "Proxy-Connection", "Keep-Alive", "Te", "Trailer",
	"Transfer-Encoding", "Upgrade", "Content-Length", "Date", "Retry-After", replayedHeader,
}

// replayedHeader is "true" in an answer of an earlier request.
const replayedHeader = "Idempotency-Replayed"

// Canonical returns the names of headers in their canonical form. Canonical
// panics if one must never be kept.
func Canonical(names []string) []string {
	kept := make([]string, len(names))
	for i, name := range names {
		kept[i] = textproto.CanonicalMIMEHeaderKey(name)
		PanicIf(name == "" || slices.Contains(neverKept, kept[i]), "the header %q is never kept", name)
	}
	return kept
}

// The first byte of a record.
const (
	wholeAnswer = 1 // status, number of headers, names and values; the rest is the body
	noAnswer    = 2 // that there was one
)

// goneAnswer is the record of an answer that cannot be had any more.
func goneAnswer() []byte { return []byte{noAnswer} }

// encode returns the record of a, with the headers of more.
func (a Answer) encode(more []string) []byte {
	var pairs []string
	for _, name := range slices.Concat(keptHeaders, more) {
		if slices.Equal(a.Header[name], a.Outer[name]) {
			continue
		}
		for _, value := range a.Header[name] {
			pairs = append(pairs, name, value)
		}
	}
	_, typed := a.Header["Content-Type"]
	if !typed && len(a.Body) > 0 && a.Header.Get("Content-Encoding") == "" { // as net/http does
		pairs = append(pairs, "Content-Type", http.DetectContentType(a.Body))
	}
	b := binary.AppendUvarint([]byte{wholeAnswer}, uint64(a.Status))
	b = binary.AppendUvarint(b, uint64(len(pairs)))
	for _, s := range pairs {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	return append(b, a.Body...)
}

// decodeAnswer returns the answer of a record, marked as a replay. Its error is
// [guard.ErrResultGone].
func decodeAnswer(record []byte) (Answer, error) {
	if len(record) == 0 || record[0] != wholeAnswer {
		return Answer{}, fmt.Errorf("%w: the answer was sent in parts or was too long", guard.ErrResultGone)
	}
	r := reader{rest: record[1:]}
	a := Answer{Status: r.number(), Header: http.Header{replayedHeader: {"true"}}}
	for n := r.number(); n > 0 && r.err == nil; n -= 2 {
		name := r.text()
		a.Header[name] = append(a.Header[name], r.text())
	}
	a.Body = r.rest
	if r.err != nil || a.Status < 200 || a.Status > 999 {
		return Answer{}, fmt.Errorf("%w: another version has kept it", guard.ErrResultGone)
	}
	return a, nil
}

// reader reads the parts of a record. After an error it returns nothing.
type reader struct {
	rest []byte
	err  error
}

var errShort = errors.New("the record is too short")

func (r *reader) number() int {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 || v > 1<<31 {
		r.rest, r.err = nil, errShort
		return 0
	}
	r.rest = r.rest[n:]
	return int(v)
}

func (r *reader) text() string {
	n := r.number()
	if n > len(r.rest) {
		r.rest, r.err = nil, errShort
		return ""
	}
	s := string(r.rest[:n])
	r.rest = r.rest[n:]
	return s
}
