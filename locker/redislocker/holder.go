package redislocker

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"time"

	"github.com/go-lockguard/guard"
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
	Since       time.Time `json:"since,omitzero"`
	Name        string    `json:"name,omitempty"`
	Traceparent string    `json:"traceparent,omitempty"`
}

// describe returns what is stored behind the owner id: the instance id and a line about h.
func describe(instance string, h guard.Holder) string {
	line, _ := json.Marshal(about{h.Host, h.PID, h.Since, h.Name, h.Traceparent}) // cannot fail: plain fields
	return instance + string(line)
}

// holder reads a key's value; zero if it is not one of ours.
func holder(value string) guard.Holder {
	const ids = 2 * guard.OwnerLen
	var a about
	if len(value) < ids || json.Unmarshal([]byte(value[ids:]), &a) != nil {
		return guard.Holder{}
	}
	return guard.Holder{
		Instance: value[guard.OwnerLen:ids], Host: a.Host, PID: a.PID, Since: a.Since, Name: a.Name,
		Traceparent: a.Traceparent,
	}
}
