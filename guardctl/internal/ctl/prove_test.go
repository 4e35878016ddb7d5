package ctl

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/errnote"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/internal/redistest/redisproc"
	"github.com/go-lockguard/guard/locker/memlocker"
)

// proves runs guardctl prove for a short time, and returns its report and its
// exit status.
func proves(t *testing.T, errs *screen, flags ...string) (p proof, status int) {
	t.Helper()
	var out bytes.Buffer
	all := append([]string{"guardctl", "--json"}, flags[:len(flags)-1]...)
	all = append(all, "prove", "--ttl", "4s", "--time", "1500ms")
	if errs == nil {
		errs = new(screen)
	}
	all = append(all, strings.Fields(flags[len(flags)-1])...)
	status = Run(t.Context(), all, strings.NewReader(""), &out, errs)
	if out.Len() == 0 {
		t.Fatalf("status %d, no report, %s", status, errs.text.String())
	}
	decode(t, out.String(), &p)
	return p, status
}

// violates fails t unless the report names a violation.
func violates(t *testing.T, p proof, status int, kinds ...string) {
	t.Helper()
	for _, v := range p.Violated {
		for _, kind := range kinds {
			if v.Kind == kind && status == 1 && !p.OK && meaning[kind] != "" {
				t.Logf("%+v", *v)
				return
			}
		}
	}
	t.Errorf("status %d, want one of %q in %+v", status, kinds, p)
}

func TestASoundServerIsProvenAndLeftClean(t *testing.T) {
	s := redistest.Start(t)
	p, status := proves(t, nil, s.Addr)
	if status != 0 || !p.OK || p.Storm.Turns == 0 || p.Storm.Handed == 0 || p.Checks < 2 ||
		p.Measured.Message.Median <= 0 || p.Measured.HandOver.Median <= 0 || len(p.Server.Versions) == 0 {
		t.Errorf("status %d, %+v", status, p)
	}
	if n := redistest.Client(t, s.Addr).DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("%d keys are left", n)
	}
}

func TestAClusterIsProven(t *testing.T) {
	nodes := redistest.StartCluster(t)
	p, status := proves(t, nil, "--cluster", nodes[0].Addr)
	if status != 0 || !p.OK || p.Server.Primaries != 3 {
		t.Errorf("status %d, %+v", status, p)
	}
}

func TestASentinelIsProven(t *testing.T) {
	addrs := redistest.StartSentinel(t).Addrs()
	url := "redis://" + addrs[0] + "?addr=" + addrs[1] + "&addr=" + addrs[2]
	p, status := proves(t, nil, "--sentinel", redisproc.SentinelName, "--url", url, "")
	if status != 0 || !p.OK || p.Server.Mode != "Sentinel" || p.Server.Primaries != 1 {
		t.Errorf("status %d, %+v", status, p)
	}
}

func TestProveRefusesAServerWithOtherKeys(t *testing.T) {
	s := redistest.Start(t)
	fill(t, redistest.Client(t, s.Addr), 1)
	out, err := run(t, s, "", "prove", "--time", "1s")
	if err == nil || !strings.Contains(err.Error(), "--yes") || out != "" {
		t.Errorf("%v, %s", err, out)
	}
	if p, status := proves(t, nil, "--yes "+s.Addr); status != 0 || !p.OK {
		t.Errorf("with --yes: status %d, %+v", status, p)
	}
	for _, time := range []string{"0s", "6m"} {
		if _, err := run(t, s, "", "prove", "--time", time); err == nil || !strings.Contains(err.Error(), "5m") {
			t.Error(err)
		}
	}
}

func TestProveFindsScriptsThatAreNotOneStep(t *testing.T) {
	addr := redistest.StartDialect(t, redistest.Start(t).Addr, redistest.Dialect{Steps: true})
	p, status := proves(t, nil, addr)
	violates(t, p, status, badCheck)
}

// Check knows of eviction by INFO, which a service may not tell. The storm sees
// it by itself.
func TestProveFindsAServerThatDropsKeys(t *testing.T) {
	s := redistest.Start(t, "--maxmemory", "4mb", "--maxmemory-policy", "allkeys-random")
	rdb := redistest.Client(t, s.Addr)
	filled := make(chan struct{})
	go func() { // ends with the test's context
		defer close(filled)
		for n := 0; t.Context().Err() == nil; n++ {
			rdb.Set(t.Context(), fmt.Sprint("filler:", n), strings.Repeat("x", 4000), 0)
		}
	}()
	t.Cleanup(func() { <-filled })
	p, status := proves(t, nil, "--yes "+s.Addr)
	violates(t, p, status, badCheck)
	violates(t, p, status, badOverlap, badToken, badLease)
}

func TestProveFindsAFailoverThatForgetsTheLastSecond(t *testing.T) {
	p, status := failsOver(t, true)
	violates(t, p, status, badOverlap, badToken)
	violates(t, p, status, badLease)
	if f := p.Failover; f == nil || !f.Seen || f.LeasesLost == 0 || f.Gap == 0 {
		t.Errorf("%+v", f)
	}
}

func TestAFailoverThatForgetsNothingIsProven(t *testing.T) {
	if p, status := failsOver(t, false); status != 0 || !p.OK || !p.Failover.Seen {
		t.Errorf("status %d, %+v", status, p)
	}
}

// failsOver proves a primary behind a name that moves to a replica during the
// storm. The replica has lost its link to the primary a second before if
// forgets is set.
func failsOver(t *testing.T, forgets bool) (proof, int) {
	t.Helper()
	old := redistest.Start(t, "--repl-diskless-sync-delay", "0")
	replica := redistest.Start(t, "--replicaof", strings.ReplaceAll(old.Addr, ":", " "))
	link := redistest.NewProxy(t, old.Addr)
	r := redistest.Client(t, replica.Addr)
	eventually(t, "the replica follows", func() bool {
		return strings.Contains(r.Info(t.Context(), "replication").Val(), "master_link_status:up")
	})
	errs := new(screen)
	failed := make(chan error, 1)
	go func() { failed <- move(t, errs, link, redistest.Client(t, old.Addr), r, replica.Addr, forgets) }()
	p, status := proves(t, errs, "--failover "+link.Addr)
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	return p, status
}

// move moves the name to the replica once the storm is on.
func move(
	t *testing.T, errs *screen, link *redistest.Proxy, old, replica *redis.Client, addr string, forgets bool,
) error {
	t.Helper()
	for !errs.has("trigger the failover now") && t.Context().Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(500 * time.Millisecond) // of the storm
	if forgets {
		if err := replica.Do(t.Context(), "replicaof", "no", "one").Err(); err != nil {
			return err
		}
		time.Sleep(time.Second)
	} else {
		if err := old.Do(t.Context(), "failover").Err(); err != nil {
			return err
		}
		for !strings.Contains(replica.Info(t.Context(), "replication").Val(), "role:master") {
			time.Sleep(time.Millisecond)
		}
	}
	link.MoveTo(addr)
	return nil
}

func TestTheReportSaysWhatToDo(t *testing.T) {
	for text, p := range map[string]proof{
		"--failover":                {OK: true},
		"Send this report":          {OK: true, Failover: &failover{Seen: true}},
		"trigger one":               {Failover: &failover{}},
		"Change what the finding":   {Violated: []*violation{{Kind: badCheck}}},
		"drops keys":                {Violated: []*violation{{Kind: badOverlap}}},
		"WithReplicas":              {Violated: []*violation{{Kind: badOverlap}}, Storm: stormed{Changed: true}},
		`| lease | 0 | a \| b; c |`: {Violated: []*violation{{Kind: badLease, First: "a | b\nc"}}},
	} {
		var out bytes.Buffer
		if err := p.write(&out, false); (err == nil) != p.OK || !strings.Contains(out.String(), text) {
			t.Errorf("%v, want %q in\n%s", err, text, &out)
		}
	}
}

func TestTheCourtJudges(t *testing.T) {
	alone := func(key string) *turn { return &turn{key: key, guard: 1, limit: 1} }
	permit := func() *turn { return &turn{key: "p", guard: 2, limit: 2} }
	for kind, does := range map[string]func(c *court){
		"": func(c *court) {
			for token := range uint64(3) {
				a := alone("k")
				c.asks(a)
				c.enters(a, token+1)
				c.leaves(a)
				c.ends(a, nil, false)
			}
			early, late := alone("k"), alone("k") // both ask, and the later token comes first
			c.asks(early)
			c.asks(late)
			for i, a := range []*turn{late, early} {
				c.enters(a, uint64(9-i))
				c.leaves(a)
			}
		},
		badOverlap: func(c *court) {
			for token := range uint64(2) {
				a := alone("k")
				c.asks(a)
				c.enters(a, token+1)
			}
		},
		badPermits: func(c *court) {
			for range 3 {
				a := permit()
				c.asks(a)
				c.enters(a, 0)
			}
		},
		badToken: func(c *court) {
			for range 2 {
				a := alone("k")
				c.asks(a)
				c.enters(a, 7)
				c.leaves(a)
			}
		},
		badWakeUp: func(c *court) {
			a := alone("k")
			c.asks(a)
			c.answers = int(freeMost / askEvery)
			a.asked.at, c.rooms["k"].since.at = a.asked.at.Add(-time.Minute), a.asked.at.Add(-freeMost-time.Millisecond)
			c.enters(a, 1)
		},
		badLease: func(c *court) { c.forgot, c.turns = 1, 1 },
	} {
		c := &court{}
		does(c)
		if c.close(); len(c.violated) > 1 || kind != "" != (c.count(kind) == 1) {
			t.Errorf("%q: %d kinds, %+v", kind, len(c.violated), c.violated)
		}
	}
}

// The first lease has ended by this machine's clock before the next turn
// begins, as if the process had been stopped. A key was free for long while the
// server answered nothing.
func TestTheCourtCondemnsNoServerBecauseTheMachineIsSlow(t *testing.T) {
	g, err := guard.New(memlocker.New())
	if err != nil {
		t.Fatal(err)
	}
	over, err := g.Acquire(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	if err := over.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := &court{}
	stopped, next := &turn{key: "k", limit: 1, lease: over}, &turn{key: "k", limit: 1}
	for i, a := range []*turn{stopped, next} {
		c.asks(a)
		c.enters(a, uint64(i+1))
	}
	late := &turn{key: "k", limit: 1, lease: over}
	c.asks(late)
	c.enters(late, 1)
	c.ends(late, errnote.With(guard.ErrLeaseLost, errnote.Deadline), false)
	waits := &turn{key: "w", limit: 1}
	c.asks(waits)
	waits.asked.at, c.rooms["w"].since.at = time.Time{}, time.Now().Add(-time.Minute)
	c.enters(waits, 1)
	if c.close(); len(c.violated) > 0 {
		t.Errorf("%+v", *c.violated[0])
	}
}
