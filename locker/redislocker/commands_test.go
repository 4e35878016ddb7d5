package redislocker_test

import (
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker"
)

var commandStat = regexp.MustCompile(`cmdstat_([\w|]+):calls=(\d+)`)

// inner returns the number of commands that scripts have run since the server's
// counters were reset.
func inner(t *testing.T, rdb *redis.Client) (n int) {
	t.Helper()
	for _, stat := range commandStat.FindAllStringSubmatch(rdb.Info(t.Context(), "commandstats").Val(), -1) {
		switch stat[1] {
		case "eval", "evalsha", "info", "config", "config|resetstat", "subscribe", "ping", "hello":
			continue
		}
		calls, _ := strconv.Atoi(stat[2])
		n += calls
	}
	return n
}

// TestAHandOverRunsFewCommands counts the commands inside Redis of releases
// that hand the key on, among two processes and among more.
func TestAHandOverRunsFewCommands(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	for _, c := range []struct{ processes, limit int }{{2, 10}, {4, 11}} {
		key := strconv.Itoa(c.processes)
		ls, es := listening(t, rdb, c.processes)
		line := make([]*locker.Claim, c.processes)
		for i := range line {
			line[i] = claim(key)
			if i == 0 {
				mustAcquire(t, ls[i], line[i])
				continue
			}
			queue(t, ls[i], line[i])
			es[0].wanted(t, key)
		}
		const rounds = 100
		turn := func(n int) { // of the process that has the key
			i := n % c.processes
			next := claim(key)
			want := locker.Released{Waiting: c.processes - 1, Handed: true, Queued: true}
			release(t, ls[i], line[i], next, want)
			es[(i+1)%c.processes].granted(t, line[(i+1)%c.processes], c.processes-1)
			line[i] = next
		}
		for n := range c.processes { // those that are queued by a look have their own cost
			turn(n)
		}
		if err := rdb.ConfigResetStat(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		for n := range rounds {
			turn(n)
		}
		if all := inner(t, rdb); all > rounds*c.limit+rounds/10 {
			t.Errorf("%d processes: %d commands for %d hand-overs, want %d each", c.processes, all, rounds, c.limit)
		}
	}
}

// TestAKeyOfOneOwnerCostsFewCommands counts the commands inside Redis of looks
// and releases of claims without a limit, which pay nothing for those with one.
func TestAKeyOfOneOwnerCostsFewCommands(t *testing.T) {
	rdb := redistest.Client(t, redistest.Start(t).Addr)
	ls, _ := listening(t, rdb, 1)
	l := ls[0]
	count := func(what string, want int, f func()) {
		t.Helper()
		if err := rdb.ConfigResetStat(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		f()
		if n := inner(t, rdb); n != want {
			t.Errorf("%s runs %d commands, want %d", what, n, want)
		}
	}
	free, owner, first, second := claim("free"), claim("k"), claim("k"), claim("k")
	mustAcquire(t, l, free)
	count("a release", 3, func() { mustRelease(t, l, free) })
	mustAcquire(t, l, owner)
	held(t, l, first, locker.Try{Wait: true})
	time.Sleep(5 * time.Millisecond) // each look then lets the queue last longer
	count("a look", 13, func() { held(t, l, second, locker.Try{Wait: true, Held: true}) })
	count("a hand-over", 8, func() { mustRelease(t, l, owner) })
}
