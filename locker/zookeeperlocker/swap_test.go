package zookeeperlocker

import (
	"slices"
	"testing"
	"time"

	"github.com/go-lockguard/guard/locker/rowlocker"
)

// ZooKeeper writes a refusal to its log, and the claims of a hot key come back
// again and again.
func TestATicketThatStaysRefusesOneTransactionOnly(t *testing.T) {
	t.Parallel()
	conn, seen := counting(t)
	r := New(conn, WithPrefix("/swap")).rows
	var last *rowlocker.Change
	sends := func(what string, c *rowlocker.Change, done bool, want int) {
		t.Helper()
		last = c
		mark := len(seen.since(0))
		if err := r.Swap(t.Context(), []*rowlocker.Change{c}); err != nil || c.Done != done {
			t.Fatalf("%s: %+v, %v", what, c, err)
		}
		if !done && (len(c.Current) != 1 || len(c.Current[0].Tickets) != 1) {
			t.Errorf("%s: the refusal brings %+v", what, c.Current)
		}
		codes := seen.since(mark)
		codes = slices.DeleteFunc(codes, func(code uint32) bool { return code != opMulti })
		if len(codes) != want {
			t.Errorf("%s: %d transactions, want %d", what, len(codes), want)
		}
	}
	change := func(row rowlocker.Row) *rowlocker.Change {
		row.Key, row.KeepFor = "k", time.Minute
		return &rowlocker.Change{Rows: []rowlocker.Row{row}}
	}
	owned := change(rowlocker.Row{Value: []byte("one/{}")})
	if err := r.ensure(t.Context(), r.shard(hash("k"))); err != nil {
		t.Fatal(err)
	}
	sends("acquire", owned, true, 1)
	free := rowlocker.Row{Version: owned.Version, Tag: owned.Rows[0].Tag}
	ticket := rowlocker.Ticket{Name: "two", Value: []byte("{}")}
	sends("join", &rowlocker.Change{Join: &rowlocker.Join{Key: "k", Tag: free.Tag, Ticket: ticket}}, true, 1)
	sends("release", change(free), false, 1)
	sends("release again", change(free), false, 0)
	free.Drop = last.Current[0].Tickets
	sends("release of a key with a known ticket", change(free), true, 1)
}
