package redisfence_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/fence"
	"github.com/go-lockguard/guard/fence/redisfence"
	"github.com/go-lockguard/guard/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const token = 1_795_165_495_785_562 // of today

const increment = `return redis.call('INCRBY', KEYS[1], ARGV[1])`

var add = redisfence.NewScript(increment)

// rising writes with tokens that rise and fall, and returns the fault that it
// finds.
func rising(t *testing.T, rdb *redis.Client, add *redisfence.Script) error {
	t.Helper()
	rdb.FlushAll(t.Context())
	at := redisfence.For("n")
	var newest uint64
	want := 0
	for _, tok := range []uint64{
		1, 9, 10, 9, token, token, token - 1, token + 1, token, 1<<53 + 1, 1 << 53, 1<<62 - 1, 1 << 62, 1 << 62,
		1<<62 - 1, math.MaxInt64, 1 << 62,
	} {
		n, err := add.Run(t.Context(), rdb, at, tok, []string{"n"}, 1).Int()
		if tok >= newest {
			newest, want = tok, want+1
			if err != nil || n != want {
				return fmt.Errorf("token %d: n is %d, want %d: %w", tok, n, want, err)
			}
			continue
		}
		var late *fence.LateWriteError
		if !errors.Is(err, fence.ErrLateWrite) || !errors.As(err, &late) ||
			*late != (fence.LateWriteError{Token: tok, Newest: newest}) {
			return fmt.Errorf("token %d after %d: %w", tok, newest, err)
		}
		if n, _ := rdb.Get(t.Context(), "n").Int(); n != want {
			return fmt.Errorf("token %d: refused, and n is %d, want %d", tok, n, want)
		}
	}
	return nil
}

func TestALowerTokenIsRefusedAndWritesNothing(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	if err := rising(t, rdb, add); err != nil {
		t.Error(err)
	}
	for name, w := range map[string][2]string{
		"the same token is refused":     {"token < newest", "token <= newest"},
		"tokens are compared as text":   {"#token < #newest or ", ""},
		"tokens are compared as floats": {"token < newest", "tonumber(token) < tonumber(newest)"},
		"nothing is noted":              {"redis.call('SET', fence, token)", "redis.call('GET', fence)"},
		"nothing is compared":           {"if #token", "if false and #token"},
		"late, and written": {
			"return redis.error_reply('LATEWRITE ' .. newest)",
			"redis.call('INCR', KEYS[1]) return redis.error_reply('LATEWRITE ' .. newest)",
		},
	} {
		wrong := redisfence.Wrong(w[0], w[1], increment)
		if wrong == nil {
			t.Errorf("%s: the script has no %q", name, w[0])
		} else if err := rising(t, rdb, wrong); err == nil {
			t.Errorf("%s: not caught", name)
		}
	}
}

// A holder that has read is overtaken by another one that has read and is about
// to write. If reading leaves no trace, the late write goes in between and is
// overwritten.
func TestAReadBeforeAWriteMustBeFencedToo(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	for name, c := range map[string]struct {
		read func(at redisfence.Fence, key string, token uint64) (string, error)
		lost bool
	}{
		"with the token": {read: func(at redisfence.Fence, key string, token uint64) (string, error) {
			return redisfence.Get(t.Context(), rdb, at, token, key)
		}},
		"without it": {lost: true, read: func(_ redisfence.Fence, key string, _ uint64) (string, error) {
			return rdb.Get(t.Context(), key).Result()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			key := strings.ReplaceAll(name, " ", "-")
			at := redisfence.For(key)
			if err := rdb.Set(t.Context(), key, "a", 0).Err(); err != nil {
				t.Fatal(err)
			}
			accepted := 0
			write := func(token uint64, value string) {
				err := redisfence.Set(t.Context(), rdb, at, token, key, value, 0)
				if err == nil {
					accepted++
				} else if !errors.Is(err, fence.ErrLateWrite) {
					t.Error(err)
				}
			}
			one, err1 := c.read(at, key, 1)
			two, err2 := c.read(at, key, 2)
			if err := errors.Join(err1, err2); err != nil {
				t.Fatal(err)
			}
			write(1, one+"1")
			write(2, two+"2")
			value, err := rdb.Get(t.Context(), key).Result()
			if err != nil {
				t.Fatal(err)
			}
			if lost := len(value) != 1+accepted; lost != c.lost {
				t.Errorf("%d writes accepted, the value is %q", accepted, value)
			}
		})
	}
}

func TestConcurrentWritersAreAcceptedInTheOrderOfTheirTokens(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	push := redisfence.NewScript(`return redis.call('RPUSH', KEYS[1], ARGV[1])`)
	at := redisfence.For("log")
	var wg sync.WaitGroup
	errs := make([]error, 64)
	for i := range errs {
		wg.Go(func() {
			tok := uint64(token + i%32)
			errs[i] = push.Run(t.Context(), rdb, at, tok, []string{"log"}, tok).Err()
		})
	}
	wg.Wait()
	accepted := 0
	for _, err := range errs {
		if err == nil {
			accepted++
		} else if !errors.Is(err, fence.ErrLateWrite) {
			t.Error(err)
		}
	}
	var log []uint64
	if err := rdb.LRange(t.Context(), "log", 0, -1).ScanSlice(&log); err != nil {
		t.Fatal(err)
	}
	for i := range len(log) - 1 {
		if log[i] > log[i+1] {
			t.Errorf("%d was written before %d", log[i], log[i+1])
		}
	}
	if len(log) != accepted || accepted == 0 {
		t.Errorf("%d accepted, %d in the log", accepted, len(log))
	}
}

func TestTheScriptFindsItsOwnKeysAndArguments(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	echo := redisfence.NewScript(`return {#KEYS, #ARGV, KEYS[1] or '', ARGV[2] or ''}`)
	for _, c := range []struct {
		keys []string
		args []any
		want []any
	}{
		{nil, nil, []any{int64(0), int64(0), "", ""}},
		{[]string{"{k}1", "{k}2"}, []any{"a", "b", "c"}, []any{int64(2), int64(3), "{k}1", "b"}},
	} {
		got, err := echo.Run(t.Context(), rdb, redisfence.For("{k}"), token, c.keys, c.args...).Slice()
		if err != nil || len(got) != 4 || got[0] != c.want[0] || got[1] != c.want[1] ||
			got[2] != c.want[2] || got[3] != c.want[3] {
			t.Errorf("got %v, want %v: %v", got, c.want, err)
		}
	}
}

// A script that fails has still shown its token. Its own errors are returned
// with its own line numbers.
func TestErrorsOfTheScriptAreItsOwn(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	at := redisfence.For("n")
	err := redisfence.NewScript("local a = 1\nerror('oops')").Run(t.Context(), rdb, at, token, []string{"n"}).Err()
	if err == nil || errors.Is(err, fence.ErrLateWrite) || !strings.Contains(err.Error(), "oops") ||
		!strings.Contains(err.Error(), ":2:") {
		t.Errorf("got %v, want oops in line 2", err)
	}
	if err := add.Run(t.Context(), rdb, at, token-1, []string{"n"}, 1).Err(); !errors.Is(err, fence.ErrLateWrite) {
		t.Errorf("a lower token after a script that failed: %v", err)
	}
	if _, err := redisfence.Get(t.Context(), rdb, at, token, "nothing"); !errors.Is(err, redis.Nil) {
		t.Errorf("got %v, want redis.Nil", err)
	}
	for key, value := range map[string]string{"text": "LATEWRITE", "empty": "", "signed": "-5"} {
		rdb.Set(t.Context(), key, value, 0)
		err := add.Run(t.Context(), rdb, redisfence.Fence{Key: key}, token, []string{"n"}, 1).Err()
		if err == nil || !strings.Contains(err.Error(), "holds something else") {
			t.Errorf("a fence that holds %q: %v", value, err)
		}
	}
}

func TestTheFenceLivesAsLongAsItIsTold(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	for _, c := range []struct {
		life, ttl time.Duration
		refused   bool
	}{
		{0, 0, false},
		{0, time.Hour, false},
		{2 * time.Hour, time.Hour, false},
		{time.Hour, 2 * time.Hour, true}, // the data would be there, and its fence gone
		{time.Hour, 0, true},
		{-1, 0, true},
		{time.Microsecond, 0, true},
		{0, time.Microsecond, true},
		{0, -time.Second, true},
	} {
		at := redisfence.For("v")
		at.Life = c.life
		err := redisfence.Set(t.Context(), rdb, at, token, "v", "x", c.ttl)
		if refused := errors.Is(err, guard.ErrInvalidOption); refused != c.refused || (err != nil) != c.refused {
			t.Errorf("fence of %v for a TTL of %v: %v", c.life, c.ttl, err)
		}
		if c.refused {
			continue
		}
		near := func(key string, want time.Duration) {
			got, err := rdb.PTTL(t.Context(), key).Result()
			if want == 0 && got != -1 || want != 0 && (got > want || got < want-time.Minute) || err != nil {
				t.Errorf("%s lives %v, want %v: %v", key, got, want, err)
			}
		}
		near(at.Key, c.life)
		near("v", c.ttl)
	}
}

func TestWhatIsNoTokenIsRefused(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	for _, tok := range []uint64{0, 1 << 63, math.MaxUint64} {
		if err := add.Run(t.Context(), rdb, redisfence.For("n"), tok, []string{"n"}, 1).Err(); !errors.Is(err,
			guard.ErrInvalidOption) {
			t.Errorf("token %d: %v", tok, err)
		}
	}
	if err := add.Run(t.Context(), rdb, redisfence.Fence{}, token, []string{"n"}, 1).Err(); !errors.Is(err,
		guard.ErrInvalidOption) {
		t.Errorf("a fence without a key: %v", err)
	}
}

func TestTheFenceOfAKeyIsInItsSlot(t *testing.T) {
	var addrs []string
	for _, s := range redistest.StartCluster(t) {
		addrs = append(addrs, s.Addr)
	}
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs})
	defer rdb.Close()
	for key, exists := range map[string]bool{
		"stock": true, "stock:lamp": true, "{lamp}:stock": true, "stock:{lamp}": true, "a{b": true, "{a}{b}": true,
		"{a}}": true, "ä": true, "{{a}": true,
		"": false, "a}b": false, "{}a": false, "}{": false, "}a{": false, "}{a}": true, "a{}b{c}": false,
	} {
		at := redisfence.For(key)
		if (at.Key != "") != exists {
			t.Errorf("For(%q) is %q", key, at.Key)
		}
		if !exists {
			continue
		}
		if err := redisfence.Set(t.Context(), rdb, at, token, key, "x", 0); err != nil {
			t.Errorf("%q and its fence %q: %v", key, at.Key, err)
		}
		if err := redisfence.Set(t.Context(), rdb, at, token-1, key, "y", 0); !errors.Is(err, fence.ErrLateWrite) {
			t.Errorf("%q and its fence %q: %v", key, at.Key, err)
		}
	}
}
