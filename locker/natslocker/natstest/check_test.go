package natstest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/internal/testguard"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/natslocker"
)

// waker is for a locker that nobody waits at.
type waker = lockerkit.Deaf

// check returns the findings of Check as "name severity", in order.
func check(t *testing.T, l locker.Locker) []string {
	t.Helper()
	return checkFor(t, l, 20*time.Second)
}

func checkFor(t *testing.T, l locker.Locker, ttl time.Duration) (names []string) {
	t.Helper()
	if err := l.Open(waker{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	defer l.Close(context.WithoutCancel(ctx))
	err := l.Check(ctx, ttl)
	found, rest := locker.Findings(err)
	if rest != nil {
		t.Errorf("Check says %v beside findings", rest)
	}
	for _, f := range found {
		names = append(names, f.Name+" "+f.Severity.String())
		if !slices.Contains(l.Capabilities().Findings, f.Name) {
			t.Errorf("%q is not among the names", f.Name)
		}
	}
	slices.Sort(names)
	return names
}

func TestCheck(t *testing.T) {
	s := start(t)
	nc := connect(t, s.ClientURL())
	for name, test := range map[string]struct {
		change func(c *jetstream.StreamConfig)
		want   string
	}{
		"one_replica": {func(*jetstream.StreamConfig) {}, "replicas warn"},
		"memory":      {func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage }, "replicas refuse"},
		"no_ttl":      {func(c *jetstream.StreamConfig) { c.AllowMsgTTL = false }, "replicas warn, ttl refuse"},
		"max_age":     {func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }, "replicas warn, ttl refuse"},
		"markers": {func(c *jetstream.StreamConfig) {
			c.SubjectDeleteMarkerTTL, c.AllowRollup = time.Second, true
		}, "replicas warn, ttl refuse"},
		"history": {func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 5 }, "history refuse, replicas warn"},
		"eviction": {func(c *jetstream.StreamConfig) {
			c.Discard, c.MaxBytes = jetstream.DiscardOld, 1<<20
		}, "eviction refuse, replicas warn"},
	} {
		t.Run(name, func(t *testing.T) {
			c := settings(name)
			test.change(&c)
			create(t, nc, c)
			if got := strings.Join(check(t, natslocker.New(nc, name)), ", "); got != test.want {
				t.Errorf("Check finds %q, want %q", got, test.want)
			}
		})
	}
	if got := strings.Join(check(t, natslocker.New(nc, "none")), ", "); got != "bucket refuse" {
		t.Errorf("without a bucket Check finds %q", got)
	}
	far := strings.Join(checkFor(t, natslocker.New(nc, bucket(t, nc)), 40*time.Microsecond), ", ")
	if far != "replicas warn, round-trip refuse" {
		t.Errorf("for a TTL that is too short Check finds %q", far)
	}
}

func TestCheckOfAServer(t *testing.T) {
	s := start(t, func(o *server.Options) { o.JetStream = false })
	if got := strings.Join(check(t, natslocker.New(connect(t, s.ClientURL()), "b")), ", "); got != "jetstream refuse" {
		t.Errorf("without JetStream Check finds %q", got)
	}
	s = start(t, func(o *server.Options) {
		o.MaxPayload = 1 << 20
		o.Users = []*server.User{
			{Username: "admin", Password: "a"},
			{Username: "poor", Password: "p", Permissions: &server.Permissions{
				Publish: &server.SubjectPermission{Deny: []string{"$KV.>"}},
			}},
			{Username: "user", Password: "u", Permissions: &server.Permissions{
				Publish: &server.SubjectPermission{Allow: []string{
					"$KV.b.>", "guard.b.>", "$JS.API.STREAM.INFO.KV_b", "$JS.API.STREAM.MSG.GET.KV_b",
				}},
				Subscribe: &server.SubjectPermission{Allow: []string{"guard.b.>", "_INBOX.>"}},
			}},
		}
	})
	host := s.Addr().String()
	create(t, connect(t, "nats://admin:a@"+host), settings("b"))
	for user, want := range map[string]string{
		"user:u": "payload warn, replicas warn", "poor:p": "rights refuse", // replicas too if there is time left
	} {
		got := strings.Join(check(t, natslocker.New(connect(t, "nats://"+user+"@"+host), "b")), ", ")
		if !strings.HasSuffix(got, want) || user == "user:u" && got != want {
			t.Errorf("for %s Check finds %q, want %q", user, got, want)
		}
	}
}

func TestOpenRefusesSettingsThatCannotWork(t *testing.T) {
	for want, l := range map[string]*natslocker.Locker{
		"the connection is nil": natslocker.New(nil, "b"),
		"the bucket needs":      natslocker.New(new(nats.Conn), "a b"),
	} {
		err := l.Open(waker{})
		if !errors.Is(err, locker.ErrInvalidOption) || !strings.Contains(err.Error(), want) {
			t.Errorf("Open: %v, want %q", err, want)
		}
	}
}

func TestDSN(t *testing.T) {
	s := start(t, func(o *server.Options) { o.Username, o.Password = "user", "secret" })
	host := s.Addr().String()
	nc, err := nats.Connect("nats://user:secret@" + host)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	create(t, nc, settings("b"))
	l, err := locker.FromDSN("nats://user:secret@127.0.0.1:1," + host + "/b")
	if err != nil {
		t.Fatal(err)
	}
	g, err := guard.New(l)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close(context.WithoutCancel(t.Context()))
	if err := g.Do(t.Context(), "k", func(context.Context) error { return nil }); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{
		"nats://user:secret@host", "nats:///b", "nats://user:secret@host:port/b", "nats://user:secret@h/b?secret=1",
		"nats://user:secret@h/b?tls=maybe", "nats://user:secret@h,/b", "nats://user:secret@h/b?%zz",
	} {
		_, err := locker.FromDSN(bad)
		if !errors.Is(err, locker.ErrInvalidOption) || strings.Contains(err.Error(), "secret") {
			t.Errorf("FromDSN(%q) is %v, want ErrInvalidOption without the password", bad, err)
		}
	}
	never, err := locker.FromDSN("nats://h/b")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := never.Close(ctx); err != nil {
		t.Errorf("Close of a locker that was never opened: %v", err)
	}
}

// Requests of a turn on a free key. A try that is late, on a busy machine, is
// made again. So a turn without one is waited for.
func TestRequests(t *testing.T) {
	s := start(t)
	name := bucket(t, connect(t, s.ClientURL()))
	nc := connect(t, s.ClientURL())
	g := testguard.Patient(t, natslocker.New(nc, name))
	turn := func(key string) int {
		before := nc.Stats().OutMsgs
		if err := g.Do(t.Context(), key, func(context.Context) error { return nil }); err != nil {
			t.Error(err)
		}
		return int(nc.Stats().OutMsgs - before)
	}
	turn("warm")
	key := 0
	for _, test := range []struct {
		what    string
		prepare func(key string)
		want    int
	}{
		{"that is new", func(string) {}, 2},
		// the marker of the deletion refuses the first try, and is read, unless
		// it has gone
		{"that was free just now", func(key string) { turn(key) }, 4},
		{"whose marker is gone", func(key string) { turn(key); markerGone(t, s, name, key) }, 2},
	} {
		testguard.Eventually(t, fmt.Sprintf("a turn on a key %s takes %d requests", test.what, test.want), func() bool {
			key++
			test.prepare(strconv.Itoa(key))
			got := turn(strconv.Itoa(key))
			return 2 <= got && got <= test.want
		})
	}
}

// markerGone waits until the marker of a row's deletion is gone.
func markerGone(t *testing.T, s *server.Server, bucket, key string) {
	t.Helper()
	js, err := jetstream.New(connect(t, s.ClientURL()))
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), "KV_"+bucket)
	if err != nil {
		t.Fatal(err)
	}
	testguard.Eventually(t, "the marker is gone", func() bool {
		_, err := stream.GetLastMsgForSubject(t.Context(), "$KV."+bucket+"."+key)
		return errors.Is(err, jetstream.ErrMsgNotFound)
	})
}

// Law 2: a token grows over deletions, also when their markers are gone.
func TestTokenOfADeletedRow(t *testing.T) {
	s := start(t)
	nc := connect(t, s.ClientURL())
	name := bucket(t, nc)
	g := testguard.Patient(t, natslocker.New(nc, name))
	var last uint64
	for range 3 {
		err := g.Do(t.Context(), "k", func(ctx context.Context) error {
			token, err := guard.FencingToken(ctx)
			if token <= last {
				t.Errorf("token %d follows %d", token, last)
			}
			last = token
			return err
		})
		if err != nil {
			t.Error(err)
		}
		markerGone(t, s, name, "k")
	}
}
