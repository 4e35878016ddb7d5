package redislocker

import (
	"strings"
	"testing"
	"time"

	"github.com/go-lockguard/guard/locker"
)

func FuzzAPlainLineIsReadAsJSONIs(f *testing.F) {
	for _, line := range []string{
		`{"v":1,"offer":5000,"host":"h","pid":7,"name":"n","traceparent":"t","since":"2024-02-29T01:02:03.5Z"}`,
		`{"v":1,"offer":5000,"since":"2024-02-29T01:02:03+01:00","limit":"000004"}`, `{"v":1,"offer":05}`,
		`{"v":1,"offer":1,"host":"a\"b","since":"2024-02-29T01:02:03Z"}`, `{"v":}`, `{"v":1,"since":"2024"}`,
		`{"v":99999999999999999999}`, "{\"v\":1,\"offer\":1,\"host\":\"\xff\"}", `{"v":1,"offer":1,"host":"h`,
		`{"v":1,"offer":1,"pid":-3}`, `{"v":1,"offer":1,"pid":3e1}`, `}`, ``, `{"host":"h"}`, `{"v":1}}`,
		`{"v":1,"since":""}`,
	} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		got, ok := readPlain(line)
		if !ok {
			return
		}
		want, ok := readJSON(line)
		same := got.Since.Equal(want.Since)
		got.Since, want.Since = time.Time{}, time.Time{}
		if !ok || !same || got != want {
			t.Errorf("%s: read as %+v, JSON as %+v, %t", line, got, want, ok)
		}
	})
}

func TestTheLinesThatWeWriteArePlain(t *testing.T) {
	d := &New(nil).self
	since := time.Date(2024, 2, 29, 1, 2, 3, 400, time.UTC)
	for _, h := range []locker.Holder{
		{},
		{Host: "h", PID: 7, Name: "läuft", Traceparent: "00-01-02-03"},
		{Since: since},
		{Name: "n", Since: since.Local()},
	} {
		for _, limit := range []int{0, 4, locker.NoLimit} {
			value, _ := d.describe(&locker.Claim{TTL: time.Second, Holder: h, Limit: limit})
			line := value[len(d.instance):]
			got, ok := readPlain(line)
			if !ok || !got.Since.Equal(h.Since) || got.Name != h.Name || got.PID != h.PID || got.Host != h.Host {
				t.Errorf("%s is read as %+v, %t", line, got, ok)
			}
		}
	}
	odd, _ := d.describe(&locker.Claim{TTL: time.Second, Holder: locker.Holder{Name: `"quoted"\`}})
	if h := readHolder(strings.Repeat("o", locker.OwnerLen) + odd); h.Name != `"quoted"\` || h.Instance != d.instance {
		t.Errorf("%s is read as %+v", odd, h)
	}
}
