package faults

import (
	"context"
	"fmt"
	"log/slog"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/lab/internal/childproc"
	"github.com/go-lockguard/guard/lab/torture/faults/rig"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// Processes that are stopped or killed. Each is a second process of this test
// binary, in a role.

const processTTL = 4 * time.Second

// play does the work of a role's process.
func play(parent *childproc.Parent, part rig.Part) error {
	say := func(words ...any) { _ = parent.Say(strings.TrimSpace(fmt.Sprintln(words...))) }
	opts := []guard.Option{guard.WithLogger(slog.New(slog.DiscardHandler))}
	switch part.Role {
	case "writer":
		opts = append(opts, guard.WithTTL(processTTL), guard.WithFencing())
	case "service":
		opts = append(opts, guard.WithTTL(long), guard.WithFencing())
	case "reader":
		opts = append(opts, guard.WithTTL(processTTL), guard.WithShared())
	case "permit":
		opts = append(opts, guard.WithTTL(processTTL), guard.WithPermits(2), guard.WithMaxWait(long))
	case "taker", "waiter":
		opts = append(opts, guard.WithTTL(handedTTL), guard.WithMaxWait(long))
	}
	rdb := rig.Connect(part.Addr)
	g, err := guard.New(redislocker.New(rdb), opts...)
	if err != nil {
		return err
	}
	ctx := context.Background()
	terminated, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	switch part.Role {
	case "writer": // writes until its context ends, and then once more, as if it ignored the end
		l, err := g.Acquire(ctx, key)
		if err != nil {
			return err
		}
		token, _ := l.FencingToken(ctx)
		say("holds")
		for l.Context().Err() == nil {
			say("works")
			time.Sleep(5 * time.Millisecond)
		}
		say("ended", context.Cause(l.Context()))
		accepted, err := write(ctx, rdb, token)
		say("wrote", accepted, err)
	case "taker":
		playTaker(ctx, g, say)
	case "waiter": // until it is killed
		_, err = g.Acquire(ctx, key)
		say("has", err)
	case "reader", "permit": // until it is killed
		if _, err = g.Acquire(ctx, key); err == nil {
			say("holds")
		}
		<-terminated.Done()
	case "service": // holds keys for short work, and shuts down on request
		for i := range 3 {
			go func() { // ends with the process
				_ = g.Do(ctx, fmt.Sprint(key, i), func(ctx context.Context) error {
					say("holds")
					<-terminated.Done()
					time.Sleep(100 * time.Millisecond)
					return ctx.Err()
				})
			}()
		}
		<-terminated.Done()
		say("closed", g.Close(ctx))
	default:
		return fmt.Errorf("no role %q", part.Role)
	}
	return nil
}

// guarded is a resource that checks tokens. It accepts a write only if no
// earlier token was higher.
var guarded = redis.NewScript(`
if tonumber(ARGV[1]) < tonumber(redis.call("get", KEYS[1]) or 0) then return 0 end
redis.call("set", KEYS[1], ARGV[1], "ex", 60)
return 1`)

func write(ctx context.Context, rdb redis.UniversalClient, token uint64) (accepted bool, err error) {
	n, err := guarded.Run(ctx, rdb, []string{"resource"}, token).Int()
	return n == 1, err
}

func TestFault11AStoppedProcessIsToldAndItsLateWriteRefused(t *testing.T) {
	begin(t)
	s := serve(t)
	rdb := redistest.Client(t, s.Addr)
	a := rig.Spawn(t, "writer", s.Addr)
	a.Says("holds")
	a.Says("works")
	a.Stop()
	b := newGuard(t, rdb, guard.WithTTL(long), guard.WithFencing(), guard.WithMaxWait(long))
	l := acquire(t, b, key) // when the key of the stopped process has ended
	if accepted, err := write(t.Context(), rdb, token(t, l)); err != nil || !accepted {
		t.Fatalf("the second holder's write: %v, %v", accepted, err)
	}
	for len(a.Said) > 0 {
		<-a.Said // said before it was stopped
	}
	goesOn := time.Now()
	a.Signal(syscall.SIGCONT)
	late := 0
	for words := range a.Said {
		if words == "works" {
			late++
			continue
		}
		if !strings.HasPrefix(words, "ended "+guard.ErrLeaseLost.Error()) {
			t.Errorf("it said %q, want that the lease was lost", words)
		}
		break
	}
	if late > 10 && steady(t, goesOn) { // 50 ms in which the lease's timer may have waited for a processor
		t.Errorf("it worked %d times after it went on", late)
	}
	if said := a.Says("wrote"); said != "wrote false <nil>" {
		t.Errorf("it %s: a late write was taken", said)
	}
	mustRelease(t, l)
	keeps(t, "its context has ended when it goes on; a write with its token is refused by the resource")
}

func TestFault36AKilledProcessFreesItsKeysWithinTheTTL(t *testing.T) {
	begin(t)
	s := serve(t)
	g := on(t, s.Addr, guard.WithTTL(long), guard.WithMaxWait(long))
	a := rig.Spawn(t, "writer", s.Addr)
	a.Says("holds")
	start := time.Now()
	a.Kill()
	mustRelease(t, acquire(t, g, key))
	d := took(t, "the key of a killed process", start, processTTL+slow)

	b := rig.Spawn(t, "service", s.Addr)
	for range 3 {
		b.Says("holds")
	}
	start = time.Now()
	b.Signal(syscall.SIGTERM)
	if said := b.Says("closed"); said != "closed <nil>" {
		t.Errorf("it %s", said)
	}
	took(t, "the shutdown", start, 100*time.Millisecond+slow)
	if left := redistest.Client(t, s.Addr).Keys(t.Context(), "guard:{k?}").Val(); len(left) > 0 {
		t.Errorf("left after SIGTERM and Close: %v", left)
	}
	keeps(t, "kill -9: free after %v (TTL %v); SIGTERM and `Close`: all keys released when the "+
		"functions had ended", d, processTTL)
}
