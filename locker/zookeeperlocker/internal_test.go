package zookeeperlocker

import (
	"context"
	"errors"
	"math"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
)

func TestAKeyIsReadFromItsNode(t *testing.T) {
	l := New(nil)
	for _, key := range []string{"a", "a/b", "\xff\x00", strings.Repeat("x", locker.MaxKey)} {
		path := l.rows.path(key)
		if got, ok := keyOf(path[strings.LastIndex(path, "/")+1:]); !ok || got != key {
			t.Errorf("%q: got %q, %v", key, got, ok)
		}
	}
}

func TestWhatIsWrittenIsReadAsItWas(t *testing.T) {
	h := head{held, "gen", time.Hour, time.Second, record{"id", time.Minute}}
	if got, value, ok := parse(h.pack([]byte("a\nb"))); !ok || got != h || string(value) != "a\nb" {
		t.Errorf("%+v %q %v", got, value, ok)
	}
	h, _, ok := parse(head{state: held, gen: "gen", keep: math.MaxInt64, held: 1}.pack(nil))
	if !ok || h.keep != keepMax || h.held != time.Millisecond || h.record.left() {
		t.Errorf("kept for ever: %+v %v", h, ok)
	}
	m := message{"k\n", "hgen/1", []byte("{}")}
	got, ok := parseMessage(m.pack())
	if !ok || got.key != m.key || got.tag != m.tag || string(got.value) != "{}" {
		t.Errorf("%+v %v", got, ok)
	}
	want := tag{held, "gen", 4711, record{"id", time.Minute}}
	if got, ok := parseTag(want.String()); !ok || got != want {
		t.Errorf("%+v %v", got, ok)
	}
	for _, strange := range []string{"", "x", "hgen 1 x\n", "9 9 9\nx", "hgen 1\n1"} {
		if _, _, ok := parse([]byte(strange)); ok {
			t.Errorf("%q was taken for a node of ours", strange)
		}
	}
	for _, strange := range []string{"", "?", " h\nx", "\n"} {
		if _, ok := parseMessage([]byte(strange)); ok {
			t.Errorf("%q was taken for a message", strange)
		}
	}
	for _, strange := range []string{"", "x", "a/1", "/", "hgen/x", "hgen/99999999999"} {
		if _, ok := parseTag(strange); ok {
			t.Errorf("%q was taken for a tag", strange)
		}
	}
}

func TestARefusalIsFinalAndSaysWhatToDo(t *testing.T) {
	for _, err := range []error{zk.ErrNoAuth, zk.ErrAuthFailed, zk.ErrInvalidACL} {
		got := tryError(err)
		if errors.Is(got, locker.ErrUnavailable) || !strings.Contains(got.Error(), "rights") {
			t.Errorf("%v: got %v", err, got)
		}
	}
	for _, err := range []error{zk.ErrConnectionClosed, zk.ErrSessionExpired, context.DeadlineExceeded} {
		if got := tryError(err); !errors.Is(got, locker.ErrUnavailable) {
			t.Errorf("%v: got %v, want ErrUnavailable", err, got)
		}
	}
	if got := tryError(errors.Join(errUnsent, context.Canceled)); !errors.Is(got, locker.ErrUnsent) {
		t.Errorf("not sent: got %v", got)
	}
}

func TestSettingsAreChecked(t *testing.T) {
	for name, l := range map[string]*Locker{
		"no connection": New(nil),
		"no slash":      New(&zk.Conn{}, WithPrefix("guard")),
		"the root":      New(&zk.Conn{}, WithPrefix("/")),
		"empty name":    New(&zk.Conn{}, WithPrefix("/a//b")),
		"dots":          New(&zk.Conn{}, WithPrefix("/a/../b")),
		"nobody":        New(&zk.Conn{}, WithACL()),
	} {
		if err := l.Open(nil); !errors.Is(err, locker.ErrInvalidOption) {
			t.Errorf("%s: %v, want ErrInvalidOption", name, err)
		}
	}
}

func TestAWrongAddressIsRefusedAndNotShown(t *testing.T) {
	for _, dsn := range []string{
		"zk:", "zk://", "zk://secret", "zk://a:1,secret", "zk://a:1?secret=1", "zk://a:1#secret",
		"zk://u:secret@a:1", "zk://a:1/secret/", "zk://a:1//secret",
	} {
		_, err := locker.FromDSN(dsn)
		if !errors.Is(err, locker.ErrInvalidOption) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want an ErrInvalidOption without the secret", dsn, err)
		}
	}
	for dsn, root := range map[string]string{"zk://a:1": "/guard", "zk://a:1,b:2/": "/guard", "zk://a:1/x/y": "/x/y"} {
		l, err := locker.FromDSN(dsn)
		if err != nil || l.(*Locker).rows.root != root {
			t.Errorf("%s: %v, want the prefix %s", dsn, err, root)
		}
	}
}

func TestARingPausesAfterARound(t *testing.T) {
	r := &ring{}
	_ = r.Init([]string{"a", "b"})
	var got []string
	for range 5 {
		server, retry := r.Next()
		got = append(got, server+strconv.FormatBool(retry))
	}
	r.Connected()
	server, retry := r.Next()
	got = append(got, server+strconv.FormatBool(retry))
	if want := "afalse bfalse atrue bfalse atrue bfalse"; strings.Join(got, " ") != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestTheListOfServersIsJudged(t *testing.T) {
	const servers = "server.1=a:1:2:participant;0.0.0.0:3\nserver.2=b:1:2:participant\n"
	for config, want := range map[string]string{
		"": "", "version=0": "", servers: FindingQuorum,
		servers + "server.3=c:1:2:participant\nversion=1": "",
		servers + "server.3=c:1:2:observer":               FindingQuorum,
	} {
		found, _ := locker.Findings(judge(node{value: []byte(config), stat: &zk.Stat{}}))
		if (want == "") != (len(found) == 0) || len(found) > 0 && found[0].Name != want {
			t.Errorf("%q: %v, want %q", config, found, want)
		}
	}
	found, _ := locker.Findings(judge(node{}))
	if len(found) != 1 || found[0].Name != FindingVersion || found[0].Severity != locker.Refuse {
		t.Errorf("a server before 3.5: %v", found)
	}
}

// deaf is a Waker for a store that does not answer.
type deaf = lockerkit.Deaf

func TestAnErrorNamesTheServerThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	mute, err := net.Listen("tcp", "127.0.0.1:0") // it accepts, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	for _, addr := range []string{"127.0.0.1:1", mute.Addr().String()} {
		l, err := locker.FromDSN("zk://" + addr)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Open(deaf{}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		c := &locker.Claim{Key: "k", Owner: lockerkit.NewID(), TTL: time.Minute, Limit: 1}
		if _, err := l.Acquire(ctx, c, locker.Try{}); err == nil || !strings.Contains(err.Error(), addr) {
			t.Errorf("Acquire: %v, want an error that names %s", err, addr)
		}
		cancel()
		ctx, cancel = context.WithTimeout(t.Context(), 300*time.Millisecond)
		if err := l.Check(ctx, time.Minute); err == nil || !strings.Contains(err.Error(), addr) {
			t.Errorf("Check: %v, want an error that names %s", err, addr)
		}
		cancel()
		ctx, cancel = context.WithTimeout(t.Context(), 300*time.Millisecond)
		_, err = call(ctx, &l.(*Locker).rows.servers, func() (bool, error) {
			t.Error("a request is sent without a session, and the client would keep it")
			return false, nil
		})
		if !errors.Is(err, errUnsent) {
			t.Errorf("without a session: %v, want errUnsent", err)
		}
		cancel()
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
