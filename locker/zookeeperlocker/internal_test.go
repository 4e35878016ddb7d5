package zookeeperlocker

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/zookeeperlocker/zktest"
)

func TestAPlaceIsReadFromItsEntry(t *testing.T) {
	for _, p := range []locker.Place{1, 4711, 1<<63 - 1} {
		if name := entryName(p, 12, lockerkit.NewID()); placeOf(name) != p || placeOf("/a/"+name) != p {
			t.Errorf("%s: place %d, want %d", name, placeOf(name), p)
		}
	}
	for _, strange := range []string{"", "q-", "h-x", "q-zzzzzzzzzzzzzzzz"} {
		if got := placeOf(strange); got != 0 {
			t.Errorf("%q: place %d, want 0", strange, got)
		}
	}
}

func TestAKeyIsReadFromItsDirectory(t *testing.T) {
	l := New(nil)
	for _, key := range []string{"a", "a/b", "\xff\x00", strings.Repeat("x", locker.MaxKey)} {
		dir := l.dir(key)
		if got, ok := keyOf(dir[strings.LastIndex(dir, "/")+1:]); !ok || got != key {
			t.Errorf("%q: got %q, %v", key, got, ok)
		}
	}
}

func TestAValueIsReadAsItWasWritten(t *testing.T) {
	c := &locker.Claim{Owner: lockerkit.NewID(), TTL: 1500 * time.Millisecond, Holder: locker.Holder{Host: "h", PID: 1}}
	owner, r, ok := parse(ownerValue(c.Owner, recordOf(c)))
	if !ok || owner != c.Owner || r.ttl() != c.TTL || r.Holder != c.Holder {
		t.Errorf("%q %+v %v", owner, r, ok)
	}
	for _, strange := range []string{"", "x", c.Owner, c.Owner + "/", c.Owner + "/{", c.Owner + "0{}"} {
		if _, _, ok := parse([]byte(strange)); ok {
			t.Errorf("%q was taken for ours", strange)
		}
	}
}

func TestAKeyEndsWithItsTTLUnlessItIsAStrangers(t *testing.T) {
	stat, now := &zk.Stat{Mzxid: 7}, time.Now()
	_, r, ok := parse(ownerValue(lockerkit.NewID(), record{TTL: 1500}))
	if s := r.sight(stat, ok, now); s.Revision != 7 || s.Left(now) != 1500*time.Millisecond {
		t.Errorf("ours: %+v", s)
	}
	_, r, ok = parse([]byte("x"))
	if s := r.sight(stat, ok, now); s.Revision != 7 || s.Over(now.Add(time.Hour)) {
		t.Errorf("a stranger's: %+v", s)
	}
}

func TestARefusalIsFinalAndSaysWhatToDo(t *testing.T) {
	for _, err := range []error{zk.ErrNoAuth, zk.ErrAuthFailed, zk.ErrInvalidACL} {
		got := tryError(err)
		if errors.Is(got, locker.ErrUnavailable) || !strings.Contains(got.Error(), "rights") {
			t.Errorf("%v: got %v", err, got)
		}
		if held := unclear(err); !errors.Is(held, locker.ErrUnavailable) {
			t.Errorf("%v for a holder: %v", err, held)
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
		if err != nil || l.(*Locker).root != root {
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

func TestAnEvenNumberOfServersIsAFinding(t *testing.T) {
	const servers = "server.1=a:1:2:participant;0.0.0.0:3\nserver.2=b:1:2:participant\n"
	for config, want := range map[string]string{
		"": "", "version=0": "", servers: FindingQuorum,
		servers + "server.3=c:1:2:participant\nversion=1": "",
		servers + "server.3=c:1:2:observer":               FindingQuorum,
	} {
		found, _ := locker.Findings(judgeServers(config))
		if (want == "") != (len(found) == 0) || len(found) > 0 && found[0].Name != want {
			t.Errorf("%q: %v, want %q", config, found, want)
		}
	}
}

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
		if err := l.Open(nil); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		c := &locker.Claim{Key: "k", Owner: lockerkit.NewID(), TTL: time.Minute, Limit: 1}
		if _, err := l.Acquire(ctx, c, locker.Try{}); err == nil || !strings.Contains(err.Error(), addr) {
			t.Errorf("Acquire: %v, want an error that names %s", err, addr)
		}
		if err := l.Check(ctx, time.Minute); err == nil || !strings.Contains(err.Error(), addr) {
			t.Errorf("Check: %v, want an error that names %s", err, addr)
		}
		cancel()
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// Without a session the locker sends nothing.
func TestWhatWasNotSentIsToldApart(t *testing.T) {
	dsn, err := locker.FromDSN("zk://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := dsn.Open(nil); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = dsn.Close(t.Context()) }()
	l, ctx := dsn.(*Locker), canceled(t)
	c := &locker.Claim{Key: "k", Owner: lockerkit.NewID(), TTL: time.Minute}
	try := &attempt{l: l, c: c, st: l.book.Page(c), dir: l.dir(c.Key)}
	if _, err := try.join(ctx, &found{dir: &zk.Stat{}}, &locker.Answer{}); !errors.Is(err, locker.ErrUnsent) {
		t.Errorf("a claim that is to join the queue: %v, want ErrUnsent", err)
	}
	if try.st.MayQueue() {
		t.Error("a claim may be in the queue by a request that was not sent")
	}
	_, _, err = try.won(ctx, &zk.Stat{NumChildren: ownerNodes + 1}, 0)
	if err == nil || errors.Is(err, locker.ErrUnsent) {
		t.Errorf("a claim that owns its key: %v, want an error, but not ErrUnsent", err)
	}
}

func canceled(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// A hand-over may come before the watch that is to tell of it. ZooKeeper keeps
// a watch of a node that is not there, and the client sets it again with each
// connection.
func TestAWatchOfWhatIsGoneIsNotKept(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t, 1, zktest.Settings{})[0]
	l := New(zktest.Connect(t, time.Minute, server.Addr))
	for path, there := range map[string]bool{"/none": false, "/zookeeper": true} {
		if w, err := l.watch(t.Context(), path); err != nil || (w.stat != nil) != there {
			t.Errorf("%s: %+v, %v", path, w, err)
		}
	}
	if n := server.Watches(t.Context()); n != 1 {
		t.Errorf("%d watches are kept, want that of the node that is there", n)
	}
}

// told is a Waker that counts the keys that others want.
type told struct {
	locker.Waker
	wanted chan struct{}
}

func (told) WakeAll() {}

func (w told) Wanted(string) { close(w.wanted) }

func TestAnOwnerIsToldAlthoughTheQueueCannotBeReadAtOnce(t *testing.T) {
	t.Parallel()
	addr := zktest.Start(t, 1, zktest.Settings{})[0].Addr
	other, wanted := zktest.Connect(t, time.Minute, addr), make(chan struct{})
	l := New(zktest.Connect(t, time.Minute, addr))
	if err := l.Open(told{wanted: wanted}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close(t.Context()) }()
	c := &locker.Claim{Key: "k", Owner: lockerkit.NewID(), TTL: time.Minute}
	if _, err := l.Acquire(t.Context(), c, locker.Try{}); err != nil {
		t.Fatal(err)
	}
	entry := l.dir(c.Key) + "/" + entryName(1, 1, lockerkit.NewID())
	_, err := other.Create(entry, []byte("x"), zk.FlagEphemeral, zk.WorldACL(zk.PermAll&^zk.PermRead))
	if err == nil {
		_, err = other.Set(l.dir(c.Key), nil, anyVersion)
	}
	time.Sleep(time.Second / 2)
	if err == nil {
		_, err = other.SetACL(entry, zk.WorldACL(zk.PermAll), anyVersion)
	}
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-wanted:
	case <-time.After(20 * time.Second):
		t.Error("the owner is not told that another process waits")
	}
}
