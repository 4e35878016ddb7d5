package lockmw

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gofiber/fiber/v3"
	"github.com/valyala/fasthttp"

	"github.com/go-lockguard/guard/keyfunc"
)

// This file converts requests. Key functions take an *http.Request, which
// fasthttp does not have.

// plain holds the fields that all requests share, because no key function looks
// at them.
var plain = &http.Request{Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}

// light returns the request without headers and body. A light request is for
// keys that need none.
func (x *exchange) light() *http.Request {
	x.url.Path = x.c.Path()
	r := plain.WithContext(x.c.Context())
	r.Method, r.URL = x.c.Method(), &x.url
	return r
}

// whole returns the request for key functions. whole copies everything, because
// fiber reuses its own memory after the request. Of a body that fiber streams
// it reads nothing yet, and later limit bytes at most.
func (x *exchange) whole(limit int) (*http.Request, error) {
	in := x.c.Request()
	u, err := url.ParseRequestURI(string(in.RequestURI()))
	if err != nil {
		return x.light(), fmt.Errorf("%w: the path or query of the request", keyfunc.ErrInvalid)
	}
	r := plain.WithContext(x.c.Context())
	r.Method, r.URL, r.Host, r.RequestURI = x.c.Method(), u, string(in.Host()), u.RequestURI()
	r.RemoteAddr, r.TLS = x.c.RequestCtx().RemoteAddr().String(), x.c.RequestCtx().TLSConnectionState()
	if in.IsBodyStream() {
		x.stream = &stream{in: in, limit: limit}
		r.Body, r.ContentLength = io.NopCloser(x.stream), int64(max(in.Header.ContentLength(), -1))
	} else {
		body := bytes.Clone(x.c.BodyRaw())
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	r.Header = http.Header{}
	for name, value := range in.Header.All() {
		r.Header.Add(string(name), string(value))
	}
	agree(r, in)
	return r, nil
}

// stream is a body that fiber leaves to its reader. The first Read reads it,
// and gives it back to the handler. A body that is longer than the limit cannot
// be given back, so the request has to be refused.
type stream struct {
	in    *fasthttp.Request
	limit int
	text  *bytes.Reader // what was read; nil before the first Read
	end   error         // follows text
}

func (s *stream) Read(p []byte) (int, error) {
	if s.text == nil {
		s.fill()
	}
	if s.text.Len() == 0 {
		return 0, s.end
	}
	return s.text.Read(p)
}

func (s *stream) fill() {
	text, err := io.ReadAll(io.LimitReader(s.in.BodyStream(), int64(s.limit)+1))
	s.text = bytes.NewReader(text)
	switch {
	case err != nil:
		s.end = err
	case len(text) > s.limit:
		s.end = &http.MaxBytesError{Limit: int64(s.limit)}
	default:
		s.end = io.EOF
		s.in.SetBodyStream(bytes.NewReader(text), len(text))
	}
}

// broken returns why the handler cannot have the whole body, if it cannot.
func (s *stream) broken() error {
	if s == nil || s.text == nil || errors.Is(s.end, io.EOF) {
		return nil
	}
	return &keyfunc.Error{Source: "body", Err: fmt.Errorf("%w: %w", keyfunc.ErrInvalid, s.end)}
}

// endStream ends the connection of a refused request if its body is a stream.
// fasthttp would take what is left of it for the next request.
func endStream(c fiber.Ctx) {
	if c.Request().IsBodyStream() {
		c.RequestCtx().SetConnectionClose()
	}
}

// agree takes from r what the handler reads in another way by fasthttp's
// parsers. A key has the value that the handler has, or there is none.
func agree(r *http.Request, in *fasthttp.Request) {
	if form := r.Header.Get(fiber.HeaderContentType); form != "" && !sameForm(form, in) {
		r.Header.Set(fiber.HeaderContentType, fiber.MIMEOctetStream)
	}
	if len(r.Header["Cookie"]) == 0 {
		return
	}
	theirs, ours := map[string][]string{}, map[string][]string{}
	for name, value := range in.Header.Cookies() {
		theirs[string(name)] = append(theirs[string(name)], string(value))
	}
	for _, c := range r.Cookies() {
		ours[c.Name] = append(ours[c.Name], c.Value)
	}
	var same []string
	for _, c := range r.Cookies() {
		if slices.Equal(ours[c.Name], theirs[c.Name]) {
			same = append(same, c.String())
		}
	}
	r.Header["Cookie"] = []string{strings.Join(same, "; ")}
}

// sameForm reports whether fasthttp finds the form in a body of type kind that
// net/http finds there.
func sameForm(kind string, in *fasthttp.Request) bool {
	if strings.HasPrefix(kind, fiber.MIMEApplicationForm) || strings.HasPrefix(kind, fiber.MIMEApplicationJSON) {
		return true // most requests
	}
	switch media, params, _ := mime.ParseMediaType(kind); media {
	case fiber.MIMEApplicationForm:
		return false
	case fiber.MIMEMultipartForm:
		return params["boundary"] == string(in.Header.MultipartFormBoundary())
	}
	return true
}

// headers returns the headers of a response.
func headers(res *fasthttp.Response) http.Header {
	h := http.Header{}
	for name, value := range res.Header.All() {
		h.Add(string(name), string(value))
	}
	return h
}
