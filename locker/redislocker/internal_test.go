package redislocker

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/internal/redisconn"
	"github.com/go-lockguard/guard/locker"
)

// saying is an error of a server.
type saying string

func (s saying) Error() string { return string(s) }
func (s saying) RedisError()   {}

var _ redis.Error = saying("")

// A try without a connection was not sent. Only the dial that got no answer says
// that the server is silent.
func TestATryWithoutAConnectionWasNotSent(t *testing.T) {
	for _, c := range []struct {
		err            error
		unsent, silent bool
	}{
		{redisconn.ErrConnecting, true, false},
		{fmt.Errorf("%w: %w", redisconn.ErrSilentDial, redisconn.ErrConnecting), false, true},
	} {
		err := unclear(c.err)
		if errors.Is(err, locker.ErrUnsent) != c.unsent || errors.Is(err, locker.ErrSilent) != c.silent {
			t.Errorf("%v: want unsent %t, silent %t", err, c.unsent, c.silent)
		}
	}
}

func TestServerErrorsAreSortedAlsoFromInsideScriptsAndOldServers(t *testing.T) {
	script := func(s string) string {
		return "ERR Error running script (call to f_0123): @user_script:19: @user_script: 19: " + s
	}
	l := &server{conn: &redisconn.Conns{}}
	passes := []string{
		"LOADING Redis is loading the dataset in memory",
		"READONLY You can't write against a read only replica.",
		"READONLY You can't write against a read only replica. script: f_01, on @user_script:19.",
		script("-READONLY You can't write against a read only replica."),
		script("-OOM command not allowed when used memory > 'maxmemory'."),
		script("-MISCONF Redis is configured to save RDB snapshots"),
		"OOM command not allowed when used memory > 'maxmemory'. script: f_01",
		"BUSY Redis is busy running a script. You can only call SCRIPT KILL",
		"CLUSTERDOWN Hash slot not served",
		"MASTERDOWN Link with MASTER is down",
		"TRYAGAIN Multiple keys request during rehashing of slot",
		"NOREPLICAS Not enough good replicas to write.",
		"ERR max number of clients reached",
		"ERR max number of clients + cluster connections reached",
	}
	stays := []string{
		"NOPERM this user has no permissions to run the 'evalsha' command",
		"ERR ACL failure in script: No permissions to access a key",
		script("The user executing the script can't run this command"),
		"NOAUTH Authentication required.",
		"WRONGPASS invalid username-password pair or user is disabled.",
		"ERR invalid password",
		"WRONGTYPE Operation against a key holding the wrong kind of value",
		script("WRONGTYPE Operation against a key"),
		"CROSSSLOT Keys in request don't hash to the same slot",
		"MOVED 1234 10.0.0.1:6379",
		"ERR unknown command 'EVALSHA', with args beginning with: 'secret'",
		"ERR something else",
	}
	for _, text := range append(passes, stays...) {
		refused := slices.Contains(stays, text)
		err := l.tryError(saying(text))
		if got := !errors.Is(err, locker.ErrUnavailable); got != refused {
			t.Errorf("%q: refused %t, want %t", text, got, refused)
		}
		if !errors.Is(err, saying(text)) {
			t.Errorf("%q is not wrapped", text)
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("%v repeats arguments", err)
		}
		if err := leaseError(saying(text)); !errors.Is(err, locker.ErrUnavailable) &&
			!errors.Is(err, locker.ErrLeaseLost) {
			t.Errorf("%q while holding: %v, want ErrUnavailable or ErrLeaseLost", text, err)
		}
	}
	theirs := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
	defer func() { _ = theirs.Close() }()
	l.conn = redisconn.New(&redisconn.Settings{Client: theirs})
	defer l.conn.Close()
	if err := l.tryError(saying("MOVED 1234 10.0.0.1:6379")); !errors.Is(err, locker.ErrUnavailable) {
		t.Errorf("MOVED in a cluster: %v, want ErrUnavailable", err)
	}
}

func TestACommandThatAServerDoesNotHaveIsToldApart(t *testing.T) {
	for _, text := range []string{
		"ERR unknown command 'MSET', with args beginning with: 'secret'",
		"ERR Unknown Redis command called from script script: f_01, on @user_script:7.", // of Redis
		"ERR Unknown command called from script script: f_01, on @user_script:7.",       // of Valkey
	} {
		if got := code(saying(text)); got != unknownCommand {
			t.Errorf("%q: %q, want %q", text, got, unknownCommand)
		}
	}
}

func TestHolderIsNamedByInstanceAndNotByOwner(t *testing.T) {
	h := locker.Holder{Host: "h", PID: 1, Name: "n"}
	instance, owner := lockerkit.NewID(), lockerkit.NewID()
	want := h
	want.Instance = instance
	value, _ := (&describer{instance: instance}).describe(&locker.Claim{Owner: owner, Holder: h})
	if got := readHolder(value); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func FuzzHolderReadsAnyValue(f *testing.F) {
	f.Add("")
	f.Add(strings.Repeat("x", 44) + `{"pid":1}`)
	f.Add(strings.Repeat("x", 44) + `{"since":"yesterday"}`)
	f.Fuzz(func(t *testing.T, value string) {
		if h := readHolder(value); h != (locker.Holder{}) && h.Instance != value[locker.OwnerLen:2*locker.OwnerLen] {
			t.Errorf("%q: %+v", value, h)
		}
	})
}

// The guard puts two hexadecimal digits, or "sha256:", behind each '%'.
func TestTheProbesKeyIsNoGuards(t *testing.T) {
	key := probeKey()
	_, after, ok := strings.Cut(key, "%")
	if !ok || len(key) > locker.MaxKey || strings.ContainsAny(key, "{}") || strings.HasPrefix(after, "sha256:") ||
		!strings.ContainsFunc(after[:2], func(r rune) bool {
			return !strings.ContainsRune("0123456789abcdefABCDEF", r)
		}) {
		t.Errorf("%q could be a guard's", key)
	}
}

func TestAnEntryIsSixCharactersAndTheValueOfTheKey(t *testing.T) {
	for want, c := range map[string]*locker.Claim{
		"m-0100v": {TTL: 100 * time.Millisecond}, "mf0999v": {TTL: 999 * time.Millisecond, Fencing: true},
		"l-1000v": {TTL: time.Second}, "lf1000v": {TTL: 24 * 24 * time.Hour, Fencing: true},
	} {
		if got := entry(c, "v", want[0] == 'm'); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
