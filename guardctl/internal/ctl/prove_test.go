package ctl

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/lockercheck"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/internal/redistest/redisproc"
)

// proves runs guardctl prove for a short time, and returns its report and its
// exit status. A busy server may be unavailable at first.
func proves(t *testing.T, flags ...string) (p proof, status int) {
	t.Helper()
	all := append([]string{"guardctl", "--json"}, flags[:len(flags)-1]...)
	all = append(all, "prove", "--ttl", "4s", "--time", "1500ms")
	all = append(all, strings.Fields(flags[len(flags)-1])...)
	for n := 1; ; n++ {
		var out bytes.Buffer
		errs := new(screen)
		status = Run(t.Context(), all, strings.NewReader(""), &out, errs)
		if out.Len() > 0 {
			decode(t, out.String(), &p)
			return p, status
		}
		if n == 10 || !errs.has("unavailable") {
			t.Fatalf("status %d, no report, %s", status, errs.text.String())
		}
	}
}

func TestASoundServerIsProvenAndLeftClean(t *testing.T) {
	s := redistest.Start(t)
	rdb := redistest.Client(t, s.Addr)
	fill(t, rdb, 3) // of others, which stay
	before := rdb.DBSize(t.Context()).Val()
	if p, status := proves(t, s.Addr); status != 0 || !p.OK || p.Kept < 100 || p.Grants == 0 {
		t.Errorf("status %d, %+v", status, p)
	}
	if n := rdb.DBSize(t.Context()).Val(); n != before {
		t.Errorf("%d keys are left of %d", n, before)
	}
}

func TestAClusterIsProven(t *testing.T) {
	nodes := redistest.StartCluster(t)
	if p, status := proves(t, "--cluster", nodes[0].Addr); status != 0 || !p.OK {
		t.Errorf("status %d, %+v", status, p)
	}
}

func TestASentinelIsProven(t *testing.T) {
	addrs := redistest.StartSentinel(t).Addrs()
	url := "redis://" + addrs[0] + "?addr=" + addrs[1] + "&addr=" + addrs[2]
	if p, status := proves(t, "--sentinel", redisproc.SentinelName, "--url", url, ""); status != 0 || !p.OK {
		t.Errorf("status %d, %+v", status, p)
	}
}

func TestProveFindsScriptsThatAreNotOneStep(t *testing.T) {
	addr := redistest.StartDialect(t, redistest.Start(t).Addr, redistest.Dialect{Steps: true, Slow: time.Millisecond})
	if p, status := proves(t, addr); status != 1 || p.OK || !p.refuses() {
		t.Errorf("status %d, %+v", status, p)
	}
}

// Check knows of eviction by INFO, which a service may not tell. The checks and
// the judge see it by themselves.
func TestProveFindsAServerThatDropsKeys(t *testing.T) {
	s := redistest.Start(t)
	rdb := redistest.Client(t, s.Addr)
	dropped := make(chan struct{})
	go func() { // ends with the test's context
		defer close(dropped)
		for t.Context().Err() == nil {
			if key := rdb.RandomKey(t.Context()).Val(); strings.HasPrefix(key, provePrefix) {
				rdb.Del(t.Context(), key)
			}
		}
	}()
	t.Cleanup(func() { <-dropped })
	if p, status := proves(t, s.Addr); status != 1 || p.OK || len(p.Broken) == 0 {
		t.Errorf("status %d, %+v", status, p)
	}
}

func TestTheReportSaysWhatToDo(t *testing.T) {
	for text, p := range map[string]proof{
		"nothing was violated":     {Grants: 1},
		"Change what the findings": {Findings: []guard.Finding{{Severity: guard.Refuse}}},
		"for no lease":             {},
		`- a \| b; c`:              {Results: lockercheck.Results{Broken: []string{"a | b\nc"}}},
	} {
		var out bytes.Buffer
		if err := p.write(&out, false); (err == nil) != p.OK || !strings.Contains(out.String(), text) {
			t.Errorf("%v, want %q in\n%s", err, text, &out)
		}
	}
}
