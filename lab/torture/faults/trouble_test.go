package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/internal/testguard"
)

// trouble is a state in which a server refuses requests for a while.
type trouble struct {
	code       string
	args       []string // of the server
	begin, end func(t *testing.T, s *redistest.Server, rdb *redis.Client)
}

var troubles = []trouble{
	{code: "OOM", begin: config("maxmemory", "1"), end: config("maxmemory", "0")},
	{code: "NOREPLICAS", begin: config("min-replicas-to-write", "1"), end: config("min-replicas-to-write", "0")},
	{code: "READONLY", begin: demote, end: promote},
	{code: "MASTERDOWN", args: []string{"--replica-serve-stale-data", "no"}, begin: demote, end: promote},
	{
		code: "MISCONF", args: []string{"--save", "3600 1"}, begin: loseDirectory,
		end: config("stop-writes-on-bgsave-error", "no"),
	},
	{code: "BUSY", args: []string{"--busy-reply-threshold", "50"}, begin: loop, end: endLoop},
	{
		code: "LOADING", args: []string{
			"--enable-debug-command", "yes",
			"--loading-process-events-interval-bytes", "1024",
		},
		begin: load, end: loaded,
	},
}

func config(name, value string) func(*testing.T, *redistest.Server, *redis.Client) {
	return func(t *testing.T, _ *redistest.Server, rdb *redis.Client) {
		t.Helper()
		command(t, rdb, "config", "set", name, value)
	}
}

// demote makes the server a replica of a server that does not answer.
func demote(t *testing.T, _ *redistest.Server, rdb *redis.Client) {
	t.Helper()
	command(t, rdb, "replicaof", "127.0.0.1", "1")
}

func promote(t *testing.T, _ *redistest.Server, rdb *redis.Client) {
	t.Helper()
	command(t, rdb, "replicaof", "no", "one")
}

// loseDirectory takes away the directory to which the server saves.
func loseDirectory(t *testing.T, s *redistest.Server, rdb *redis.Client) {
	t.Helper()
	_ = os.RemoveAll(s.Dir)
	command(t, rdb, "bgsave")
	testguard.Eventually(t, "the server could not save", func() bool {
		return strings.Contains(rdb.Info(t.Context(), "persistence").Val(), "rdb_last_bgsave_status:err")
	})
}

// loop keeps the server busy with a script.
func loop(t *testing.T, s *redistest.Server, _ *redis.Client) {
	t.Helper()
	inBackground(t, s, "eval", "while true do end", 0)
	refuses(t, s, "BUSY")
}

func endLoop(t *testing.T, _ *redistest.Server, rdb *redis.Client) {
	t.Helper()
	command(t, rdb, "script", "kill")
}

// load makes the server read its data again for 3 s. This cannot be cut short.
func load(t *testing.T, s *redistest.Server, rdb *redis.Client) {
	t.Helper()
	command(t, rdb, "debug", "populate", 2000, "x", 1000)
	command(t, rdb, "config", "set", "key-load-delay", 1500) // µs; a shorter sleep takes much longer than asked for
	inBackground(t, s, "debug", "reload")
	refuses(t, s, "LOADING")
}

func loaded(t *testing.T, _ *redistest.Server, rdb *redis.Client) {
	t.Helper()
	testguard.Eventually(t, "the server has loaded",
		func() bool { return errors.Is(rdb.Do(t.Context(), "get", "x").Err(), redis.Nil) })
	command(t, rdb, "eval", "for i = 0, 1999 do redis.call('del', 'x:' .. i) end return 1", 0)
}

// inBackground sends a command whose answer comes when the trouble is over.
func inBackground(t *testing.T, s *redistest.Server, args ...any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), long)
	go func() { // ends with the answer
		defer cancel()
		_ = s.Do(ctx, args...).Err()
	}()
}

// refuses waits until the server refuses requests with an error of that code.
func refuses(t *testing.T, s *redistest.Server, code string) {
	t.Helper()
	testguard.Eventually(t, "the server says "+code,
		func() bool { return redis.HasErrorPrefix(s.Do(t.Context(), "get", "x").Err(), code) })
}

// One trouble comes after the other, because the end is about all.
func TestFault06AServerInTroubleIsUnavailableAndWaitedFor(t *testing.T) {
	begin(t)
	for _, trouble := range troubles { // one after the other: the end is about all
		t.Run(trouble.code, func(t *testing.T) {
			n := newNetwork(t, trouble.args...)
			g := on(t, n.server.Addr, guard.WithTTL(long), guard.WithMaxWait(long))
			l := acquire(t, g, "held")
			trouble.begin(t, n.server, n.direct)
			judged(t, func() string {
				err := g.With(guard.WithMaxWait(100*time.Millisecond)).Do(t.Context(), key, nop)
				if errors.Is(err, guard.ErrUnavailable) && strings.Contains(err.Error(), trouble.code) {
					return ""
				}
				return fmt.Sprintf("%v, want ErrUnavailable that says %s", err, trouble.code)
			})
			waited := make(chan error, 1)
			go func() { waited <- g.Do(t.Context(), key, nop) }() // ends when the trouble does
			if err := l.Err(); err != nil {
				t.Errorf("the holder: %v, want it to go on until its deadline", err)
			}
			trouble.end(t, n.server, n.direct)
			if err := <-waited; err != nil {
				t.Errorf("one who waited for the end of it: %v", err)
			}
			mustRelease(t, l)
		})
	}
	keeps(t, "`ErrUnavailable` that names the reason; who waits gets the key when it is over; a holder keeps its "+
		"lease to its deadline")
}
