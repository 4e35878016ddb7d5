package docs_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/guardtest"
	"github.com/go-lockguard/guard/internal/doccheck"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// The rungs of from-setnx.md: each snippet shows its fault. The number in a
// test's name is that of its step.

const owner = "A"

// byHand returns a server whose time stands still until it is moved.
func byHand(t *testing.T) (*miniredis.Miniredis, *redis.Client) {
	t.Helper()
	m := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: m.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	return m, rdb
}

// takes reports whether somebody else takes the lock now.
func takes(t *testing.T, rdb *redis.Client) bool {
	t.Helper()
	got, err := rdb.SetNX(t.Context(), "lock:7", "B", 10*time.Second).Result()
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestStep1_ALockWithoutAnEndStaysAfterACrash(t *testing.T) {
	m, rdb := byHand(t)
	ctx := t.Context()

	got, err := rdb.SetNX(ctx, "lock:7", 1, 0).Result() // and the process dies inside
	if err != nil || !got {
		t.Fatal(got, err)
	}
	if m.FastForward(1000 * time.Hour); takes(t, rdb) {
		t.Error("the lock has ended")
	}
}

func TestStep2_ALockWithATTLEndsAfterACrash(t *testing.T) {
	m, rdb := byHand(t)
	ctx := t.Context()

	got, err := rdb.SetNX(ctx, "lock:7", owner, 10*time.Second).Result() // one command: SET lock:7 A NX EX 10
	if err != nil || !got {
		t.Fatal(got, err)
	}
	if m.FastForward(11 * time.Second); !takes(t, rdb) {
		t.Error("the lock has not ended")
	}
}

func TestStep3_ALateDelDeletesTheLockOfAnother(t *testing.T) {
	m, rdb := byHand(t)
	ctx := t.Context()
	late := func() {
		if got, err := rdb.SetNX(ctx, "lock:7", owner, 10*time.Second).Result(); err != nil || !got {
			t.Fatal(got, err)
		}

		defer rdb.Del(ctx, "lock:7") // after 11 s: whose lock is it?

		if m.FastForward(11 * time.Second); !takes(t, rdb) {
			t.Fatal("B cannot have it")
		}
	}
	late()
	if !takes(t, rdb) { // as C, beside B
		t.Error("B's lock is still there")
	}
}

var unlock = redis.NewScript(`
if redis.call("get", KEYS[1]) == ARGV[1] then
	return redis.call("del", KEYS[1])
end
return 0`)

var errNotOurs = errors.New("another one has the lock")

// watched deletes the lock of owner without a script.
func watched(ctx context.Context, rdb *redis.Client) error {
	return rdb.Watch(ctx, func(tx *redis.Tx) error {
		if tx.Get(ctx, "lock:7").Val() != owner {
			return errNotOurs
		}
		_, err := tx.TxPipelined(ctx, func(p redis.Pipeliner) error { return p.Del(ctx, "lock:7").Err() })
		return err
	}, "lock:7")
}

func TestStep3_OnlyTheOwnerUnlocks(t *testing.T) {
	_, rdb := byHand(t)
	if !takes(t, rdb) {
		t.Fatal("the lock is not free")
	}
	if n, err := unlock.Run(t.Context(), rdb, []string{"lock:7"}, owner).Int(); n != 0 || err != nil {
		t.Errorf("the script deleted %d, %v", n, err)
	}
	if err := watched(t.Context(), rdb); !errors.Is(err, errNotOurs) {
		t.Errorf("WATCH: got %v", err)
	}
	rdb.Set(t.Context(), "lock:7", owner, 0)
	if err := watched(t.Context(), rdb); err != nil || !takes(t, rdb) {
		t.Errorf("WATCH: got %v, or the lock is still there", err)
	}
}

func TestStep4_WorkThatOutlivesItsTTLIsNotAlone(t *testing.T) {
	m, rdb := byHand(t)
	if got, err := rdb.SetNX(t.Context(), "lock:7", owner, 10*time.Second).Result(); err != nil || !got {
		t.Fatal(got, err)
	}
	if m.FastForward(11 * time.Second); !takes(t, rdb) { // A works for 35 s
		t.Error("B is kept out")
	}
	synctest.Test(t, func(t *testing.T) {
		guards := instances(t, guard.WithMaxWait(0))
		g, sku := guards[0], "7"
		deduct := func(context.Context) error {
			time.Sleep(35 * time.Second)
			if ran, err := guards[1].TryDo(t.Context(), guard.Key("stock", sku), nothing); ran || err != nil {
				t.Errorf("beside it: ran %v, %v", ran, err)
			}
			return nil
		}
		ctx := t.Context()

		err := g.Do(ctx, guard.Key("stock", sku), deduct) // renewed for as long as deduct runs
		if err != nil {
			t.Error(err)
		}
	})
}

func nothing(context.Context) error { return nil }

func TestStep5_AFlowWaitsForItselfUnlessItsContextHasTheKey(t *testing.T) {
	_, rdb := byHand(t)
	if !takes(t, rdb) || takes(t, rdb) {
		t.Error("the same flow takes its own lock")
	}
	g := guardtest.New(t).Guard
	refund := func(ctx context.Context) error { return g.Do(ctx, "order:7", nothing) }

	err := g.Do(t.Context(), "order:7", func(ctx context.Context) error {
		return refund(ctx) // takes order:7 too, and has it already
	})
	if err != nil {
		t.Error(err)
	}
}

// stamped is the lock with time stamps for a client whose clock shows now.
//
//nolint:staticcheck // GETSET is what it shows
func stamped(ctx context.Context, rdb *redis.Client, now time.Time) (mine bool, err error) {
	stamp := now.Add(10 * time.Second).UnixMilli()
	if mine, err = rdb.SetNX(ctx, "lock:7", stamp, 0).Result(); mine || err != nil {
		return mine, err
	}
	end, err := rdb.Get(ctx, "lock:7").Int64()
	if err != nil || end > now.UnixMilli() {
		return false, err
	}
	old, err := rdb.GetSet(ctx, "lock:7", stamp).Int64()
	return old < now.UnixMilli(), err // who comes second gets the first one's stamp
}

func TestStep6_TimeStampsNeedOneClock(t *testing.T) {
	_, rdb := byHand(t)
	now := time.Now()
	if mine, err := stamped(t.Context(), rdb, now); !mine || err != nil {
		t.Fatal(mine, err)
	}
	if mine, err := stamped(t.Context(), rdb, now.Add(9*time.Second)); mine || err != nil {
		t.Errorf("within its time: %v, %v", mine, err)
	}
	// A works since now. A clock that is 11 s ahead says that the lock is over.
	if mine, err := stamped(t.Context(), rdb, now.Add(11*time.Second)); !mine || err != nil {
		t.Errorf("a clock that is ahead: %v, %v", mine, err)
	}
}

// Each level is a server of its own, as in Redisson's MultiLock.
func everywhere(ctx context.Context, a, b, c *guard.Guard, work func(context.Context) error) error {
	return a.Do(ctx, "order:7", func(ctx context.Context) error {
		return b.Do(ctx, "order:7", func(ctx context.Context) error {
			return c.Do(ctx, "order:7", work)
		})
	})
}

func TestStep11_ALockOnThreeServersNeedsAllOfThem(t *testing.T) {
	var guards []*guard.Guard
	servers := redistest.StartN(t, 3)
	for _, s := range servers {
		g, err := guard.New(redislocker.New(redistest.Client(t, s.Addr)), guard.WithMaxWait(300*time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = g.Close(context.WithoutCancel(t.Context())) })
		guards = append(guards, g)
	}
	a, b, c := guards[0], guards[1], guards[2]
	ran := 0
	work := func(context.Context) error { ran++; return nil }
	if err := everywhere(t.Context(), a, b, c, work); err != nil || ran != 1 {
		t.Fatalf("%d runs, %v", ran, err)
	}
	servers[2].Kill()
	if err := everywhere(t.Context(), a, b, c, work); !errors.Is(err, guard.ErrUnavailable) || ran != 1 {
		t.Errorf("without the third: %d runs, %v", ran, err)
	}
	for _, s := range servers[:2] {
		if keys := redistest.Client(t, s.Addr).Keys(t.Context(), "guard:{order*").Val(); len(keys) > 0 {
			t.Errorf("left: %q", keys)
		}
	}
}

func TestStep14_SegmentsSellWhatThereIs(t *testing.T) {
	const parts = 8
	g := guardtest.New(t).Guard
	sku, left := "7", make([]int, parts)
	for i := range left {
		left[i] = 10
	}
	var mu sync.Mutex // guards sold
	sold := 0
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			ctx := t.Context()
			for range 20 {
				part := rand.N(parts)

				err := g.Do(ctx, guard.Key("stock", sku, part), func(context.Context) error { // one of 8 parts of the stock
					if left[part] == 0 {
						return errNotOurs
					}
					left[part]--
					return nil
				})

				if err == nil {
					mu.Lock()
					sold++
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	rest := 0
	for _, n := range left {
		rest += n
	}
	if sold+rest != 10*parts || sold == 0 {
		t.Errorf("%d sold, %d left of %d", sold, rest, 10*parts)
	}
}

func TestStep15_NumbersNeedNoLock(t *testing.T) {
	_, rdb := byHand(t)
	ctx := t.Context()

	n, err := rdb.Incr(ctx, "seq:order").Result()            // the next number
	end, errs := rdb.IncrBy(ctx, "seq:order", 1000).Result() // or 1,000 for this process: end-999 to end

	if n != 1 || end != 1001 || err != nil || errs != nil {
		t.Error(n, end, err, errs)
	}
}

func TestStep16_AHolderCanLookAtItsLease(t *testing.T) {
	g := guardtest.New(t)
	write := func(ctx context.Context) error {
		if lease, ok := guard.LeaseFrom(ctx); ok && lease.Err() != nil {
			return lease.Err() // no request: the clock tells
		}
		return ctx.Err()
	}
	synctest.Test(t, func(t *testing.T) {
		g := guardtest.New(t)
		err := g.Do(t.Context(), "order:7", func(ctx context.Context) error {
			g.Lose("order:7")
			time.Sleep(4 * time.Second)
			return write(ctx)
		})
		if !errors.Is(err, guard.ErrLeaseLost) {
			t.Errorf("got %v", err)
		}
	})
	if err := g.Do(t.Context(), "order:7", write); err != nil {
		t.Error(err)
	}
}

// The table of from-setnx.md says how to run each step.
func TestEachStepOfTheLadderHasACommandThatRunsSomething(t *testing.T) {
	page := load(t, "from-setnx.md")
	i := slices.IndexFunc(page.Sections, func(s doccheck.Section) bool { return s.Title == "Run each step" })
	if i < 0 || len(page.Sections[i].Tables) != 1 {
		t.Fatal("there is no table of commands")
	}
	commands := map[string]bool{}
	for _, row := range page.Sections[i].Tables[0].Rows[1:] {
		for _, step := range regexp.MustCompile(`\d+`).FindAllString(row[0], -1) {
			for _, m := range regexp.MustCompile("`(go [^`]+)`").FindAllStringSubmatch(row[1], -1) {
				commands[step] = true
				if c := strings.Replace(m[1], "Step3_", "Step"+step+"_", 1); !runsSomething(t, c) {
					t.Errorf("step %s: %s runs nothing", step, c)
				}
			}
		}
	}
	for step := range 16 {
		if !commands[strconv.Itoa(step+1)] {
			t.Errorf("step %d has no command", step+1)
		}
	}
	for _, planted := range []string{"go test ./docs -v -run Step17_", "go run ./examples/none", "go vet ./docs"} {
		if runsSomething(t, planted) {
			t.Errorf("%s: not found", planted)
		}
	}
}

// runsSomething reports whether a command runs a program or a test that is
// there.
func runsSomething(t *testing.T, command string) bool {
	t.Helper()
	words := strings.Fields(command)
	files, err := filepath.Glob(filepath.Join("..", filepath.FromSlash(words[2]), "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	want := regexp.MustCompile(`(?m)^func main\(`)
	switch {
	case words[1] == "test" && words[len(words)-2] == "-run":
		want = regexp.MustCompile(`(?m)^func Test\w*` + strings.TrimPrefix(words[len(words)-1], "Test"))
	case words[1] != "run":
		return false
	}
	return slices.ContainsFunc(files, func(file string) bool {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return want.Match(text)
	})
}
