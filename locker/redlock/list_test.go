package redlock_test

import (
	"slices"
	"testing"

	"github.com/go-lockguard/guard/internal/redistest"
)

// A key may reach a node after that node has been listed.
func TestAListHasAKeyThatANodeGotLate(t *testing.T) {
	var servers []*redistest.Server
	for range 3 {
		servers = append(servers, redistest.Start(t))
	}
	nodes := clientsOf(t, servers)
	l := open(t, nodes)
	mustAcquire(t, l, claim("late"))
	late := "guard:{late}"
	var value string
	eventually(t, "the vote of a node comes, perhaps behind the majority", func() (ok bool) {
		var err error
		value, err = nodes[1].Get(t.Context(), late).Result()
		return err == nil
	})
	nodes[0].FlushDB(t.Context())
	mustAcquire(t, l, claim("first"))
	var keys []string
	for s, err := range l.List(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, s.Key)
		nodes[0].Set(t.Context(), late, value, ttl) // node 0 has been listed by now
	}
	slices.Sort(keys)
	if want := []string{"first", "late"}; !slices.Equal(keys, want) {
		t.Errorf("the list has %q, want %q", keys, want)
	}
}
