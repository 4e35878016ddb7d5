package redislocker

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// newID returns 22 random characters, like an owner id.
func newID() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

// about is the line of JSON in the value of a key, for others to read.
type about struct {
	Host        string    `json:"host,omitempty"`
	PID         int       `json:"pid,omitempty"`
	Name        string    `json:"name,omitempty"`
	Traceparent string    `json:"traceparent,omitempty"`
	Since       time.Time `json:"since,omitzero"`
}

// describe returns what is stored behind the owner id: the instance id and a line about h. The part that stays the same
// from call to call is kept, for one kind of holder at a time.
func (l *Locker) describe(h locker.Holder) string {
	since := h.Since
	h.Since = time.Time{}
	d := l.described.Load()
	if d == nil || d.holder != h {
		line, _ := json.Marshal(about{h.Host, h.PID, h.Name, h.Traceparent, time.Unix(0, 0)}) // cannot fail: plain fields
		text := l.instance + string(line)
		d = &description{holder: h, text: text[:strings.LastIndex(text, sinceField)+len(sinceField)]}
		l.described.Store(d)
	}
	value := make([]byte, 0, len(d.text)+len(time.RFC3339Nano)+2)
	value = append(value, d.text...)
	value = since.AppendFormat(value, time.RFC3339Nano)
	return string(append(value, `"}`...))
}

// description is what describe returned last for holder, up to the time.
type description struct {
	holder locker.Holder
	text   string
}

const sinceField = `"since":"`

// holder reads a key's value; zero if it is not one of ours.
func holder(value string) locker.Holder {
	const ids = 2 * locker.OwnerLen
	var a about
	if len(value) < ids || json.Unmarshal([]byte(value[ids:]), &a) != nil {
		return locker.Holder{}
	}
	return locker.Holder{
		Instance: value[locker.OwnerLen:ids], Host: a.Host, PID: a.PID, Since: a.Since, Name: a.Name,
		Traceparent: a.Traceparent,
	}
}
