package zookeeperlocker

import (
	"testing"
	"time"

	"github.com/go-lockguard/guard/locker/rowlocker"
	"github.com/go-lockguard/guard/locker/zookeeperlocker/zktest"
)

// The version of a node begins anew when the node is made again.
func TestARowThatWasMadeAgainIsAnother(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t, 1, zktest.Settings{})[0]
	conn := zktest.Connect(t, 10*time.Second, s.Addr)
	r := New(conn, WithPrefix("/aba")).rows
	ctx := t.Context()
	swap := func(row rowlocker.Row) *rowlocker.Change {
		t.Helper()
		row.Key, row.KeepFor = "k", time.Minute
		c := &rowlocker.Change{Rows: []rowlocker.Row{row}}
		if err := r.Swap(ctx, []*rowlocker.Change{c}); err != nil {
			t.Fatal(err)
		}
		return c
	}
	swap(rowlocker.Row{Value: []byte("one/{}")})
	old, err := r.Load(ctx, []string{"k"})
	if err != nil || string(old[0].Value) != "one/{}" {
		t.Fatal(old, err)
	}
	swap(rowlocker.Row{Version: old[0].Version, Tag: old[0].Tag})
	second := swap(rowlocker.Row{Value: []byte("two/{}")})
	_, before, _ := conn.Get(r.path("k"))
	was, _ := parseTag(old[0].Tag)
	if before.Version != was.version || second.Version <= old[0].Version {
		t.Fatalf("version %d then %d, zxid %x then %x", was.version, before.Version, old[0].Version, second.Version)
	}
	c := swap(rowlocker.Row{Version: old[0].Version, Tag: old[0].Tag, Value: []byte("one/{}")})
	if c.Done || string(c.Current[0].Value) != "two/{}" {
		t.Errorf("%+v: the old row was written over a new one", c)
	}
}
