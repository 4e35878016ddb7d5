package lockmw

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/valyala/fasthttp"

	"github.com/go-lockguard/guard/keyfunc"
)

// This file converts requests. Key functions take an *http.Request, which
// fasthttp does not have.

// plain holds the fields that all requests share, because no key function looks
// at them.
var plain = &http.Request{Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}

// light returns the request without headers and body. It is for keys that need
// none.
func (x *exchange) light() *http.Request {
	x.url.Path = x.c.Path()
	r := plain.WithContext(x.c.Context())
	r.Method, r.URL = x.c.Method(), &x.url
	return r
}

// whole returns the request for key functions. It copies everything, because
// fiber reuses its own memory after the request.
func (x *exchange) whole() (*http.Request, error) {
	in := x.c.Request()
	u, err := url.ParseRequestURI(string(in.RequestURI()))
	if err != nil {
		return x.light(), fmt.Errorf("%w: the path or query of the request", keyfunc.ErrInvalid)
	}
	body := bytes.Clone(x.c.BodyRaw())
	r := plain.WithContext(x.c.Context())
	r.Method, r.URL, r.Host, r.RequestURI = x.c.Method(), u, string(in.Host()), u.RequestURI()
	r.RemoteAddr, r.TLS = x.c.RequestCtx().RemoteAddr().String(), x.c.RequestCtx().TLSConnectionState()
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	r.Header = http.Header{}
	for name, value := range in.Header.All() {
		r.Header.Add(string(name), string(value))
	}
	return r, nil
}

// headers returns the headers of a response.
func headers(res *fasthttp.Response) http.Header {
	h := http.Header{}
	for name, value := range res.Header.All() {
		h.Add(string(name), string(value))
	}
	return h
}
