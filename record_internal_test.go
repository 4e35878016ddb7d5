package guard

import (
	"errors"
	"strings"
	"testing"
)

const traced = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func originIn(record string) origin {
	_, _, from, _ := splitRecord(record)
	return from
}

func TestOnce_ARecordHasTheOriginOfItsResult(t *testing.T) {
	mark, m := []byte("print"), output{recordResult, []byte("payload")}
	record := encodeRecord(m, mark, originOf(traced), defaultResultLimit)
	if got := originIn(record).traceparent(); got != traced {
		t.Errorf("the origin is %q", got)
	}
	if got, err := decodeRecord(record, mark); string(got.payload) != "payload" || err != nil {
		t.Errorf("decoded %q, %v", got.payload, err)
	}
	for n := range len(record) - len(m.payload) {
		if _, err := decodeRecord(record[:n], mark); !errors.Is(err, ErrResultGone) {
			t.Errorf("cut to %d bytes: %v", n, err)
		}
		if got := originIn(record[:n]); got != "" {
			t.Errorf("cut to %d bytes, its origin is %q", n, got)
		}
	}
}

func TestOnce_AnOriginCostsOnlyTheTraced(t *testing.T) {
	m := output{recordResult, []byte("payload")}
	bare := encodeRecord(m, nil, "", defaultResultLimit)
	if len(bare) != recordHead+len(m.payload) || originIn(bare) != "" {
		t.Errorf("a record without an origin has %d bytes", len(bare))
	}
	if n := len(encodeRecord(m, nil, originOf(traced), defaultResultLimit)); n != len(bare)+originSize {
		t.Errorf("a record with an origin has %d bytes, one without %d", n, len(bare))
	}
	if tight := encodeRecord(m, nil, originOf(traced), len(bare)); tight != bare {
		t.Error("a payload that fits must not give way to an origin")
	}
	noHex := strings.Replace(traced, "0af", "xyz", 1)
	for _, strange := range []string{"", "00", "01" + traced[2:], traced + "-x", noHex} {
		if originOf(strange) != "" {
			t.Errorf("%q is an origin", strange)
		}
	}
}
