package guard

import "encoding/hex"

// An origin is the span of the call that made a result, for the links of later
// calls. A record has it if an observer of that call had a traceparent. It
// makes the record originSize longer.
type origin string

const (
	originSize = 25 // trace id, span id, flags
	hasOrigin  = 0x80
)

// originOf returns the origin of a traceparent. It is "" for one of another
// version.
func originOf(traceparent string) origin {
	const prefix, traceEnd, spanEnd, end = 3, 35, 52, 55
	t := traceparent
	if len(t) != end || t[:prefix] != "00-" || t[traceEnd] != '-' || t[spanEnd] != '-' {
		return ""
	}
	b, err := hex.DecodeString(t[prefix:traceEnd] + t[traceEnd+1:spanEnd] + t[spanEnd+1:])
	if err != nil {
		return ""
	}
	return origin(b)
}

// traceparent is the reverse of originOf.
func (o origin) traceparent() string {
	if len(o) != originSize {
		return ""
	}
	h := hex.EncodeToString([]byte(o))
	return "00-" + h[:32] + "-" + h[32:48] + "-" + h[48:]
}

// originIn returns the origin in a record, or "".
func originIn(record string) origin {
	if len(record) < recordHead || record[0] != recordVersion || record[2]&hasOrigin == 0 {
		return ""
	}
	start := recordHead + int(record[2]&^hasOrigin)
	if len(record) < start+originSize {
		return ""
	}
	return origin(record[start : start+originSize])
}
