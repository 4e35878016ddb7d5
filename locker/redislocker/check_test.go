package redislocker_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/redislocker"
)

func TestCheckOfASoundServerPassesAndLeavesNothing(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	if err := open(t, rdb).Check(t.Context(), ttl); err != nil {
		t.Error(err)
	}
	emptied(t, rdb)
}

// documented reads the rights from the package's documentation.
func documented(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`[~+&][a-z:*|]{3,}`).FindAllString(string(text), -1)
}

func TestDocumentedRightsSuffice(t *testing.T) {
	s := redistest.Start(t)
	rights := documented(t)
	if len(rights) < 10 {
		t.Fatal("rights not found:", rights)
	}
	l := open(t, as(t, s, rights))
	if err := l.Check(t.Context(), ttl); err != nil {
		t.Errorf("with %v: %v", rights, err)
	}
	warm(t, l)
}

// All of these are in Redis 5.
func TestDocumentedCommandsAreThoseOfTheScripts(t *testing.T) {
	used := map[string]bool{}
	for outside := range strings.FieldsSeq("evalsha eval msetnx mset publish subscribe ping select client " +
		"scan wait info") {
		used["+"+outside] = true // sent by itself, or by redislock's script
	}
	files, err := filepath.Glob("*.lua")
	if err != nil || len(files) < 6 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		calls := regexp.MustCompile(`redis\.p?call\("([a-z]+)"(?:, "(numsub)")?`)
		for _, c := range calls.FindAllStringSubmatch(string(text), -1) {
			used[strings.TrimSuffix("+"+c[1]+"|"+c[2], "|")] = true
		}
	}
	for _, right := range documented(t) {
		if right[0] == '+' && !used[right] {
			t.Errorf("%s is documented and never used", right)
		}
		delete(used, right)
	}
	for right := range used {
		t.Errorf("%s is used and not documented", right)
	}
}

// wantFinding fails t unless err has a finding with this name and severity. It
// returns the finding's text.
func wantFinding(t *testing.T, err error, name string, severity locker.Severity) string {
	t.Helper()
	found, _ := locker.Findings(err)
	for _, f := range found {
		if f.Name == name && f.Severity == severity {
			return f.Text
		}
	}
	t.Errorf("got %v, want a finding %q to %v", err, name, severity)
	return ""
}

// Shared claims, permits and several keys use no command that others do not
// use.
func TestDocumentedRightsSufficeForEachMode(t *testing.T) {
	s := redistest.Start(t)
	ls, _ := listening(t, as(t, s, documented(t)), 3)
	for _, limit := range []int{locker.NoLimit, 2} {
		a, b, alone := limited("k", limit), limited("k", limit), claim("k")
		a.Fencing, b.Fencing = limit == 2, limit == 2
		mustAcquire(t, ls[0], a)
		mustAcquire(t, ls[1], b)
		if !owns(t, ls[0], a) || !owns(t, ls[1], b) {
			t.Errorf("limit %d: a share cannot be renewed", limit)
		}
		held(t, ls[2], alone, locker.Try{Wait: true})
		mustRelease(t, ls[0], a)
		mustRelease(t, ls[1], b)
		mustTry(t, ls[2], alone, locker.Try{Wait: true, Queued: true})
		mustRelease(t, ls[2], alone)
	}
	all := []*locker.Claim{claim("k"), claim("l")}
	if _, held, err := ls[0].AcquireAll(t.Context(), all, false); err != nil || held != len(all) {
		t.Errorf("several keys: %d is held, %v", held, err)
	}
}

// without returns rights without the missing ones.
func without(rights []string, missing ...string) []string {
	return slices.DeleteFunc(slices.Clone(rights), func(r string) bool { return slices.Contains(missing, r) })
}

func TestCheckNamesEachMissingRight(t *testing.T) {
	s := redistest.Start(t)
	rights := documented(t)
	for _, missing := range rights {
		name, severity := redislocker.FindingRights, locker.Refuse
		switch missing {
		case "+select", "+client", "+wait": // not used here; a connection without a name does
			continue
		case "&guard:inbox:*", "+publish", "+subscribe", "+ping", "+pubsub|numsub": // without them waiting is polling
			name, severity = redislocker.FindingMessages, locker.Warn
		case "+scan":
			name, severity = redislocker.FindingList, locker.Warn
		case "+info":
			name, severity = redislocker.FindingEviction, locker.Warn
		}
		err := open(t, as(t, s, without(rights, missing))).Check(t.Context(), ttl)
		if found, rest := locker.Findings(err); len(found) != 1 || rest != nil {
			t.Errorf("without %s: %v", missing, err)
		}
		if text := wantFinding(t, err, name, severity); !strings.Contains(text+" ", missing+" ") &&
			!strings.Contains(text, missing+",") {
			t.Errorf("%q does not name %s", text, missing)
		}
	}
}

// A proxy that splits reads from writes takes SUBSCRIBE for a read.
func TestCheckNamesSubscriptionsThatAreNotAtThePrimary(t *testing.T) {
	t.Parallel()
	direct, rdb, _ := splitReads(t)
	if err := open(t, direct).Check(t.Context(), ttl); err != nil {
		t.Errorf("without the proxy: %v", err)
	}
	var err error
	through := open(t, rdb)
	eventually(t, "Check has the time to subscribe", func() bool {
		err = through.Check(t.Context(), ttl)
		return err != nil
	})
	text := wantFinding(t, err, redislocker.FindingMessages, locker.Warn)
	if !strings.Contains(text, "SUBSCRIBE") || !strings.Contains(text, "proxy") {
		t.Errorf("%q, want it to say what to change", text)
	}
}

func TestCheckNamesAllMissingRightsAtOnce(t *testing.T) {
	s := redistest.Start(t)
	rdb := as(t, s, without(documented(t), "+get", "+zadd", "+publish", "+info"))
	err := open(t, rdb).Check(t.Context(), ttl)
	if text := wantFinding(t, err, redislocker.FindingRights, locker.Refuse); !strings.Contains(text, "+get +zadd (") {
		t.Errorf("%q", text)
	}
	if text := wantFinding(t, err, redislocker.FindingMessages, locker.Warn); !strings.Contains(text, "+publish (") {
		t.Errorf("%q", text)
	}
	emptied(t, redistest.Client(t, s.Addr))
}

func TestCheckNamesTheKeysOfItsPrefix(t *testing.T) {
	s := redistest.Start(t)
	l := open(t, as(t, s, without(documented(t), "~guard:*")), redislocker.WithPrefix("shop"))
	if text := wantFinding(t, l.Check(t.Context(), ttl), redislocker.FindingRights,
		locker.Refuse); !strings.Contains(text, "~shop:*") {
		t.Errorf("%q", text)
	}
}

// The provider of a server may take commands away.
func TestCheckNamesACommandThatTheServerDoesNotHave(t *testing.T) {
	for _, command := range []string{"zrange", "msetnx", "mset"} { // the last two are tried in a script
		s := redistest.Start(t, "--rename-command", command, "")
		err := open(t, redistest.Client(t, s.Addr)).Check(t.Context(), ttl)
		if text := wantFinding(t, err, redislocker.FindingRights, locker.Refuse); !strings.Contains(text, "+"+command) {
			t.Errorf("%s: %q", command, text)
		}
	}
}

// as returns a client for a user with just the rights.
func as(t *testing.T, s *redistest.Server, rights []string) *redis.Client {
	t.Helper()
	args := []any{"acl", "setuser", "lease", "reset", "on", ">pw"}
	for _, r := range rights {
		args = append(args, r)
	}
	if err := redistest.Client(t, s.Addr).Do(t.Context(), args...).Err(); err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr, Username: "lease", Password: "pw"})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

func TestCheckRefusesAServerThatDropsKeys(t *testing.T) {
	for _, c := range []struct {
		limit, policy string
		drops         bool
	}{
		{"100mb", "allkeys-lru", true},
		{"100mb", "volatile-lru", true}, // each of our keys has a TTL
		{"100mb", "volatile-ttl", true},
		{"100mb", "noeviction", false},
		{"0", "allkeys-lru", false}, // it is never full
	} {
		s := redistest.Start(t, "--maxmemory", c.limit, "--maxmemory-policy", c.policy)
		err := open(t, redistest.Client(t, s.Addr)).Check(t.Context(), ttl)
		if !c.drops {
			if err != nil {
				t.Errorf("%s %s: %v", c.limit, c.policy, err)
			}
			continue
		}
		if text := wantFinding(t, err, redislocker.FindingEviction, locker.Refuse); !strings.Contains(text,
			"maxmemory-policy") || !strings.Contains(text, c.policy) {
			t.Errorf("%q, want it to name the setting", text)
		}
	}
}

func TestCheckNamesReplicasThatAreMissing(t *testing.T) {
	primary, _ := replicated(t)
	rdb := redistest.Client(t, primary.Addr)
	if err := open(t, rdb, redislocker.WithReplicas(1, 5*time.Second)).Check(t.Context(), ttl); err != nil {
		t.Errorf("with as many as are waited for: %v", err)
	}
	err := open(t, rdb, redislocker.WithReplicas(2, 100*time.Millisecond)).Check(t.Context(), ttl)
	if text := wantFinding(t, err, redislocker.FindingReplicas, locker.Refuse); !strings.Contains(text,
		"1 replicas are connected and WithReplicas waits for 2") {
		t.Errorf("%q", text)
	}
	if !errors.Is(err, locker.ErrUnavailable) {
		t.Errorf("%v, want it to be what may pass", err)
	}
}

func TestCheckNamesTheRightToWait(t *testing.T) {
	primary, _ := replicated(t)
	rdb := as(t, primary, without(documented(t), "+wait"))
	err := open(t, rdb, redislocker.WithReplicas(1, 400*time.Millisecond)).Check(t.Context(), ttl)
	if text := wantFinding(t, err, redislocker.FindingRights, locker.Refuse); !strings.Contains(text, "+wait (") {
		t.Errorf("%q", text)
	}
}

func TestCheckAsksEachMasterOfAClusterForItsPolicy(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t)
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nodes[0].Addr}})
	t.Cleanup(func() { _ = rdb.Close() })
	l := open(t, rdb)
	if err := l.Check(t.Context(), ttl); err != nil {
		t.Error(err)
	}
	one := redistest.Client(t, nodes[len(nodes)-1].Addr)
	one.ConfigSet(t.Context(), "maxmemory", "100mb")
	one.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-random")
	wantFinding(t, l.Check(t.Context(), ttl), redislocker.FindingEviction, locker.Refuse)
}

// openFar opens a locker on a server, in memory, that is far away.
func openFar(t *testing.T, d redistest.Distance) *redislocker.Locker {
	t.Helper()
	_, opts := redistest.InMemory(t.Cleanup)
	opts.Dialer = d.Over(opts.Dialer)
	rdb := redis.NewClient(opts)
	t.Cleanup(func() { _ = rdb.Close() })
	return open(t, rdb)
}

func TestCheckComparesRoundTripWithTTL(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		trip, ttl time.Duration
		severity  locker.Severity
		says      string // "" for no such finding
	}{
		{20 * ms, 100 * ms, locker.Refuse, "WithTTL"},
		{20 * ms, time.Hour, 0, ""},
		{350 * ms, 4000 * ms, locker.Warn, "a new connection"}, // it has no time for a login
		{460 * ms, time.Hour, locker.Refuse, "closer"},         // however long the TTL, a try has 500 ms
	} {
		synctest.Test(t, func(t *testing.T) {
			err := openFar(t, redistest.Distance{RoundTrip: c.trip}).Check(t.Context(), c.ttl)
			if c.says == "" {
				wantContent(t, err)
				return
			}
			text := wantFinding(t, err, redislocker.FindingRoundTrip, c.severity)
			if !strings.Contains(text, c.says) {
				t.Errorf("%v away, %q, want it to say %q", c.trip, text, c.says)
			}
		})
	}
}

func TestCheckMeasuresANewConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := openFar(t, redistest.Distance{RoundTrip: 200 * time.Millisecond, Opening: 3})
		err := l.Check(t.Context(), time.Minute)
		text := wantFinding(t, err, redislocker.FindingRoundTrip, locker.Warn)
		if !strings.Contains(text, "takes 800ms") || !strings.Contains(text, "500ms of a try to acquire") {
			t.Errorf("%q, want it to say that a login takes 800 ms, and what a try has", text)
		}
	})
}

func TestCheckRaisesNoAlarmForOneSlowConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var measured atomic.Int64
		_, opts := redistest.InMemory(t.Cleanup)
		dial := opts.Dialer
		opts.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			// Others must not wait: go-redis holds a mutex while it dials.
			if strings.Contains(string(debug.Stack()), "MeasureConnection") && measured.Add(1) == 1 {
				time.Sleep(700 * time.Millisecond)
			}
			return dial(ctx, network, addr)
		}
		rdb := redis.NewClient(opts)
		t.Cleanup(func() { _ = rdb.Close() })
		wantContent(t, open(t, rdb).Check(t.Context(), time.Minute))
		if n := measured.Load(); n != 2 {
			t.Errorf("measured %d connections, want a slow one and another", n)
		}
	})
}

// slowLogin is a connection whose server says nothing until then.
type slowLogin struct {
	net.Conn

	until time.Time
}

func (c slowLogin) Read(b []byte) (int, error) {
	time.Sleep(time.Until(c.until))
	return c.Conn.Read(b)
}

func TestCheckRefusesASlowLoginThatIsAPartOfTheTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, opts := redistest.InMemory(t.Cleanup)
		dial := redistest.Distance{RoundTrip: 100 * time.Millisecond}.Over(opts.Dialer)
		opts.MaxRetries, opts.ContextTimeoutEnabled = -1, true
		opts.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dial(ctx, network, addr)
			return slowLogin{conn, time.Now().Add(600 * time.Millisecond)}, err
		}
		theirs := redis.NewClient(opts)
		t.Cleanup(func() { _ = theirs.Close() })
		l := open(t, nil, redislocker.WithClient(theirs))
		text := wantFinding(t, l.Check(t.Context(), time.Minute), redislocker.FindingRoundTrip, locker.Refuse)
		if !strings.Contains(text, "WithClient") {
			t.Errorf("%q, want it to say that a login is a part of the try", text)
		}
	})
}

func TestCheckLooksAtTheClientOfWithClient(t *testing.T) {
	t.Parallel()
	single := redistest.Start(t)
	for name, c := range map[string]struct {
		rdb      redis.UniversalClient
		severity locker.Severity
		says     string // "" for a client that is well
	}{
		"well": {rdb: redis.NewClient(&redis.Options{Addr: single.Addr, MaxRetries: -1, ContextTimeoutEnabled: true})},
		"impatient": {
			redis.NewClient(&redis.Options{
				Addr: single.Addr, MaxRetries: -1, ContextTimeoutEnabled: true,
				ReadTimeout: 50 * time.Millisecond,
			}),
			locker.Refuse, "ReadTimeout",
		},
		"unknown": {
			struct{ redis.UniversalClient }{redis.NewClient(&redis.Options{
				Addr: single.Addr, MaxRetries: -1,
				ContextTimeoutEnabled: true,
			})},
			locker.Warn, "MaxRetries",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Cleanup(func() { _ = c.rdb.Close() })
			err := open(t, nil, redislocker.WithClient(c.rdb)).Check(t.Context(), ttl)
			if c.says == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if text := wantFinding(t, err, redislocker.FindingClient, c.severity); !strings.Contains(text, c.says) {
				t.Errorf("%q, want it to name %s", text, c.says)
			}
		})
	}
}

func TestCheckNamesAClientThatIsSlowToLearnOfItsCluster(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{redistest.StartCluster(t)[0].Addr}, MaxRetries: -1, ContextTimeoutEnabled: true,
		ClusterStateReloadInterval: time.Minute,
	})
	t.Cleanup(func() { _ = rdb.Close() })
	err := open(t, nil, redislocker.WithClient(rdb)).Check(t.Context(), ttl)
	text := wantFinding(t, err, redislocker.FindingClient, locker.Warn)
	if !strings.Contains(text, "ClusterStateReloadInterval") {
		t.Errorf("%q, want it to name ClusterStateReloadInterval", text)
	}
}

func TestCheckOfADeadServerIsUnavailable(t *testing.T) {
	s := redistest.Start(t)
	l := open(t, redistest.Client(t, s.Addr))
	s.Kill()
	if err := l.Check(t.Context(), ttl); !errors.Is(err, locker.ErrUnavailable) {
		t.Errorf("%v, want ErrUnavailable", err)
	}
}

func TestCheckOfAServerThatHangsIsUnavailable(t *testing.T) {
	s := redistest.Start(t)
	l := open(t, redistest.Client(t, s.Addr))
	mustAcquire(t, l, claim("k")) // there is a connection
	s.Stop()
	defer s.Cont()
	if err := l.Check(within(t, 100*time.Millisecond), ttl); !errors.Is(err, locker.ErrUnavailable) {
		t.Errorf("Check: %v, want ErrUnavailable", err)
	}
}
