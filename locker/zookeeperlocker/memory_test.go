package zookeeperlocker

import (
	"strconv"
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

// A row that was renewed has the tickets that it had, so that a look at it need
// not list them again.
func TestTicketsStayWhileNothingComesOrGoesBelowTheNode(t *testing.T) {
	m := &memory{notes: map[string]*note{}}
	row := rowlocker.Row{Key: "k", Version: 12}
	m.knows(row.Key, rowlocker.Ticket{Name: "mine", Version: 10}, true)
	if _, ok := m.stay(&row, 11); ok {
		t.Error("tickets are known that were never compared")
	}
	m.ours(&row, []string{ticketPrefix + "mine"}, 11)
	for pzxid, want := range map[int64]bool{11: true, 13: false} {
		row := rowlocker.Row{Key: "k", Version: 14} // renewed
		if own, ok := m.stay(&row, pzxid); ok != want || len(own) != 1 {
			t.Errorf("pzxid %d: %v, %v, want %v", pzxid, own, ok, want)
		}
	}
	m.merged(row.Key, []byte(`first/{"q":"mine"}`), 15, false)
	if _, ok := m.stay(&row, 11); ok {
		t.Error("a row that is older than the news brings the tickets of the news")
	}
}

// Planted: a note of each key stays.
func TestSomeKeysOnlyHaveNotes(t *testing.T) {
	const most = 10_000 // see lockerkit.MakeRoom
	m := &memory{notes: map[string]*note{}}
	for n := range most + 100 {
		_, unlock := m.note(strconv.Itoa(n))
		unlock()
	}
	if len(m.notes) > most {
		t.Errorf("%d keys have notes", len(m.notes))
	}
}
