package outcome

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// ContentType is the media type of [Outcome.Body].
const ContentType = "application/problem+json"

// Write answers with the headers, status and body of o. It must be called
// before anything else is written. It drops headers that a handler has set for
// a body of its own, such as Content-Length. For an outcome without a code it
// does nothing.
func Write(w http.ResponseWriter, o Outcome) {
	if o.Code == "" {
		return
	}
	o.Prepare(w.Header())
	w.WriteHeader(o.Status)
	_, _ = w.Write(o.Body()) // an error here means that the client has gone
}

// Prepare makes h the headers of an answer with o. It sets Content-Type, and
// sets or removes Retry-After. It removes headers that a handler has set for a
// body of its own. Use it for answers that are not written with [Write]. To use
// another Content-Type, set it afterwards.
func (o Outcome) Prepare(h http.Header) {
	o.inside.AnsweredHere()
	for _, name := range []string{"Content-Length", "Content-Encoding", "Etag", "Last-Modified", "Cache-Control"} {
		h.Del(name)
	}
	h.Set("Content-Type", ContentType)
	if o.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(o.RetryAfter))
	} else {
		h.Del("Retry-After")
	}
}

// Body returns the problem details of o as JSON. It returns nil for an outcome
// without a code.
func (o Outcome) Body() []byte {
	if o.Code == "" {
		return nil
	}
	o.inside.AnsweredHere()
	body, _ := json.Marshal(struct { // cannot fail with strings and an int
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
		Code   Code   `json:"code"`
	}{"about:blank", http.StatusText(o.Status), o.Status, o.Detail, o.Code})
	return body
}
