package zookeeperlocker

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-lockguard/guard/locker/rowlocker"
)

// A read may be answered before a write and be looked at after the news of it.
func TestARowThatIsOlderThanTheNewsIsNotTakenForOneWithoutTickets(t *testing.T) {
	const key = "k"
	before := rowlocker.Row{Key: key, Version: 9, Value: []byte("other/{}")}
	for name, news := range map[string]func(m *memory){
		"a message": func(m *memory) { m.merged(key, []byte(`first/{"q":"mine"}`), 11, false) },
		"a write of this process": func(m *memory) {
			m.written(&rowlocker.Row{Key: key, Drop: []rowlocker.Ticket{{Name: "mine"}}}, 11)
		},
	} {
		m, now := &memory{notes: map[string]*note{}}, time.Now()
		m.watches(before, make(chan zk.Event), 1, now)
		m.knows(key, rowlocker.Ticket{Name: "mine", Version: 10}, true)
		if own, old := m.merged(key, before.Value, before.Version, false); !own || old {
			t.Errorf("%s: before it: own %v, old %v", name, own, old)
		}
		news(m)
		if _, old := m.merged(key, before.Value, before.Version, false); !old {
			t.Errorf("%s: the row is not taken for old, though its ticket is forgotten", name)
		}
		if own, old := m.ours(&before, []string{ticketPrefix + "mine"}, 10); !old {
			t.Errorf("%s: the row is not taken for old, with %d tickets", name, len(own))
		}
		if _, silent, _ := m.look(key, 1, now); silent {
			t.Errorf("%s: the row that is watched is believed", name)
		}
	}
}
