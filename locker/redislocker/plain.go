package redislocker

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-lockguard/guard/locker"
)

// readPlain reads a line as describe writes it, if no text in it is escaped. It
// costs a twentieth of readJSON, and each look at a held key reads one.
func readPlain(line string) (h locker.Holder, ok bool) {
	r := plainReader{rest: line}
	r.odd = !strings.HasPrefix(line, `{"v":`)
	r.number(`{"v":`)
	r.number(`,"offer":`)
	h.Host = r.text(`,"host":"`)
	h.PID = r.number(`,"pid":`)
	h.Name = r.text(`,"name":"`)
	h.Traceparent = r.text(`,"traceparent":"`)
	before := r.rest
	since := r.text(`,` + sinceField)
	if r.rest != before && h.Since.UnmarshalText([]byte(since)) != nil {
		return h, false
	}
	r.text(limitField)
	return h, !r.odd && r.rest == "}"
}

// A plainReader reads the members of a line, one behind the other. A member that
// is not there is zero.
type plainReader struct {
	rest string
	odd  bool // a member is there, but is not plain
}

// number reads the number of the member that begins with name.
func (r *plainReader) number(name string) int {
	rest, ok := strings.CutPrefix(r.rest, name)
	if !ok {
		return 0
	}
	end := 0
	for end < len(rest) && rest[end] >= '0' && rest[end] <= '9' {
		end++
	}
	n, err := strconv.Atoi(rest[:end])
	r.odd = r.odd || err != nil || end > 1 && rest[0] == '0'
	r.rest = rest[end:]
	return n
}

// text reads the text of the member that begins with name, up to its end.
func (r *plainReader) text(name string) string {
	rest, ok := strings.CutPrefix(r.rest, name)
	if !ok {
		return ""
	}
	text, rest, ok := strings.Cut(rest, `"`)
	for i := range len(text) {
		r.odd = r.odd || text[i] < ' ' || text[i] == '\\'
	}
	r.odd = r.odd || !ok || !utf8.ValidString(text)
	r.rest = rest
	return text
}
