package redislocker

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/go-lockguard/guard/locker"
)

// about is the line of JSON in the value of a key, for others to read.
type about struct {
	Version     int       `json:"v"`     // the first member, see entry
	Offer       int64     `json:"offer"` // the second
	Lingers     bool      `json:"lingers,omitempty"`
	Host        string    `json:"host,omitempty"`
	PID         int       `json:"pid,omitempty"`
	Name        string    `json:"name,omitempty"`
	Traceparent string    `json:"traceparent,omitempty"`
	Since       time.Time `json:"since,omitzero"`
}

// describer writes the values of keys.
type describer struct {
	instance string // how others know this locker
	votes    bool   // this is a node of package redlock

	// last are for one kind of claim, and for one kind that lingers.
	last, lastLinger atomic.Pointer[description]
}

// describe returns the value of c's key: the owner id, the instance id and a
// line about c's holder and offers. The part that stays the same from call to
// call is kept, for one kind of claim at a time. describe also returns the
// length of the first lease as the argument of a command.
func (d *describer) describe(c *locker.Claim) (value string, ttl any) {
	h, since, offer := c.Holder, c.Holder.Since, c.LongOffer().Milliseconds()
	// A node's offer is a vote and not a grant. Nobody trusts it, and others
	// wait for it.
	if d.votes {
		offer = c.ShortOffer().Milliseconds()
	}
	h.Since = time.Time{}
	kept := &d.last
	if c.Lingers {
		kept = &d.lastLinger
	}
	last := kept.Load()
	if last == nil || last.holder != h || last.offer != offer || last.ttl != c.TTL {
		line, _ := json.Marshal(about{ // cannot fail: plain fields
			entryVersion, offer, c.Lingers, h.Host, h.PID, h.Name, h.Traceparent, time.Unix(0, 0),
		})
		text := d.instance + string(line)
		last = &description{
			holder: h, offer: offer, ttl: c.TTL, ms: c.First().Milliseconds(),
			text: text[:strings.LastIndex(text, sinceField)+len(sinceField)],
		}
		kept.Store(last)
	}
	var all strings.Builder
	all.Grow(len(c.Owner) + len(last.text) + len(time.RFC3339Nano) + 2)
	all.WriteString(c.Owner)
	all.WriteString(last.text)
	all.Write(since.AppendFormat(make([]byte, 0, len(time.RFC3339Nano)), time.RFC3339Nano))
	all.WriteByte('"')
	if c.Limit > 1 {
		_, _ = fmt.Fprintf(&all, limitField+`%06d"`, c.Limit)
	}
	all.WriteByte('}')
	return all.String(), last.ms
}

// description is what the values of claims have in common.
type description struct {
	holder locker.Holder
	offer  int64 // the long one, in ms
	ttl    time.Duration
	ms     any    // of the first lease
	text   string // from the instance id up to the time
}

const (
	lingersField = `,"lingers":true` // also in lineup.lua
	sinceField   = `"since":"`
	limitField   = `,"limit":"` // the last one, of six digits, in the line of a claim with a limit above 1
)

// limitOf returns the limit of a claim by its entry, and 1 if it has none.
func limitOf(entry string) int {
	const digits = 6
	text, ok := strings.CutSuffix(entry, `"}`)
	if !ok || len(text) < digits || !strings.HasSuffix(text[:len(text)-digits], limitField) {
		return 1
	}
	n, err := strconv.Atoi(text[len(text)-digits:])
	if err != nil {
		return 1
	}
	return n
}

// readHolder reads a key's value. The result is zero if the value is not one of
// ours.
func readHolder(value string) locker.Holder {
	const ids = 2 * locker.OwnerLen
	if len(value) < ids {
		return locker.Holder{}
	}
	h, ok := readPlain(value[ids:])
	if !ok {
		h, ok = readJSON(value[ids:])
	}
	if !ok {
		return locker.Holder{}
	}
	h.Instance = value[locker.OwnerLen:ids]
	return h
}

// lingers reports whether the value of a key is of a claim that lingers.
func lingers(value string) bool { return strings.Contains(value, lingersField) }

// readJSON reads a line of any form.
func readJSON(line string) (h locker.Holder, ok bool) {
	var a about
	if json.Unmarshal([]byte(line), &a) != nil {
		return h, false
	}
	return locker.Holder{Host: a.Host, PID: a.PID, Since: a.Since, Name: a.Name, Traceparent: a.Traceparent}, true
}

// readPlain reads a line as describe writes it, if no text in it is escaped. It
// costs a twentieth of readJSON, and each look at a held key reads one.
func readPlain(line string) (h locker.Holder, ok bool) {
	r := plainReader{left: line}
	r.odd = !strings.HasPrefix(line, `{"v":`)
	r.number(`{"v":`)
	r.number(`,"offer":`)
	r.left = strings.TrimPrefix(r.left, lingersField)
	h.Host = r.text(`,"host":"`)
	h.PID = r.number(`,"pid":`)
	h.Name = r.text(`,"name":"`)
	h.Traceparent = r.text(`,"traceparent":"`)
	before := r.left
	since := r.text(`,` + sinceField)
	if r.left != before && h.Since.UnmarshalText([]byte(since)) != nil {
		return h, false
	}
	r.text(limitField)
	return h, !r.odd && r.left == "}"
}

// A plainReader reads the members of a line, one behind the other. A member
// that is not there is zero.
type plainReader struct {
	left string
	odd  bool // a member is there, but is not plain
}

// number reads the number of the member that begins with name.
func (r *plainReader) number(name string) int {
	left, ok := strings.CutPrefix(r.left, name)
	if !ok {
		return 0
	}
	end := 0
	for end < len(left) && left[end] >= '0' && left[end] <= '9' {
		end++
	}
	n, err := strconv.Atoi(left[:end])
	r.odd = r.odd || err != nil || end > 1 && left[0] == '0'
	r.left = left[end:]
	return n
}

// text reads the text of the member that begins with name, up to its end.
func (r *plainReader) text(name string) string {
	left, ok := strings.CutPrefix(r.left, name)
	if !ok {
		return ""
	}
	text, left, ok := strings.Cut(left, `"`)
	for i := range len(text) {
		r.odd = r.odd || text[i] < ' ' || text[i] == '\\'
	}
	r.odd = r.odd || !ok || !utf8.ValidString(text)
	r.left = left
	return text
}
