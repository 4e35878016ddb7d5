package zookeeperlocker

import (
	"github.com/go-zookeeper/zk"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker/rowlocker"
)

// purpose is what an operation of a transaction is for. It tells what its
// refusal means, see rows.resolve.
type purpose int

const (
	guards  purpose = iota // the row is the one that is known
	marks                  // its marker is there
	makes                  // a node below one that may be missing
	joins                  // makes a ticket
	drops                  // deletes a ticket, or a row of any version
	tells                  // a process, if it is there
	must                   // tells a process that must be there
	remakes                // a row of any version that may be there
	sets                   // a row of any version that should be there
)

type op struct {
	purpose purpose
	path    string
	to      string // instance that is told
	request any
}

// pending is a Change on its way.
type pending struct {
	change *rowlocker.Change

	split   *rowlocker.Row // whose value is too long
	part    string         // id of its first part
	partLen int            // bytes of that

	// What refusals have told.
	gone, there map[string]bool // by path
	missing     string          // name of a marker
	crowded     bool            // there are other tickets

	// Of the last plan.
	ops  []op
	tags []string // of the rows when they are written
}

func (p *pending) add(f purpose, path string, request any) {
	p.ops = append(p.ops, op{purpose: f, path: path, request: request})
}

func remove(path string, version int32) any { return &zk.DeleteRequest{Path: path, Version: version} }

func exists(path string) any { return &zk.CheckVersionRequest{Path: path, Version: anyVersion} }

func write(path string, data []byte, version int32) any {
	return &zk.SetDataRequest{Path: path, Data: data, Version: version}
}

const anyVersion = -1

func (s *settings) create(path string, data []byte, flags int32) any {
	return &zk.CreateRequest{Path: path, Data: data, Acl: s.acl, Flags: flags}
}

// plan makes the operations of a Change. It returns false if what is known of a
// row cannot be true.
func (r *rows) plan(p *pending) bool {
	p.ops, p.tags = nil, make([]string, len(p.change.Rows))
	if j := p.change.Join; j != nil {
		return r.planJoin(p, j)
	}
	for i := range p.change.Rows {
		row := &p.change.Rows[i]
		if row.Version == rowlocker.Any {
			r.planBlind(p, row)
			continue
		}
		t, ok := r.planRow(p, row)
		if !ok {
			return false
		}
		if row.Value != nil {
			p.tags[i] = t.String()
		}
	}
	r.planMessages(p)
	return true
}

// planJoin makes a ticket.
func (r *rows) planJoin(p *pending, j *rowlocker.Join) bool {
	t, ok := parseTag(j.Tag)
	if !ok || t.state != held {
		return false
	}
	path := r.path(j.Key)
	p.add(marks, t.marker(path), exists(t.marker(path)))
	path = ticketPath(path, j.Name)
	p.add(joins, path, r.create(path, j.Value, zk.FlagEphemeral))
	if slot := r.slot(j.To, ticketSlot(j.Key)); j.To != "" && !p.gone[slot] {
		p.add(tells, slot, write(slot, message{j.Key, j.Name, j.Value}.pack(), anyVersion))
	} else {
		p.add(guards, path, write(path, j.Value, 0)) // only a write tells the transaction's id
	}
	return true
}

// planRow writes a row over the one that is known. It returns the tag of the
// new one, and false if there can be no row with the old tag.
func (r *rows) planRow(p *pending, row *rowlocker.Row) (next tag, ok bool) {
	path := r.path(row.Key)
	for _, t := range row.Drop {
		if at := ticketPath(path, t.Name); !p.gone[at] {
			p.add(drops, at, remove(at, anyVersion))
		}
	}
	old, ok := parseTag(row.Tag)
	if !ok && row.Version > 0 {
		return next, false
	}
	next = tag{stateOf(row.Value), old.gen, old.version + 1, old.record}
	if row.RecordFor > 0 {
		next.record = record{lockerkit.NewID(), min(row.RecordFor, keepMax)}
	}
	alone := alone(row, old)
	if row.Version > 0 && (alone || old.state != next.state) && old.state != unmarked {
		p.add(marks, old.marker(path), remove(old.marker(path), anyVersion))
	}
	if alone && row.Version > 0 {
		p.add(guards, path, remove(path, old.version)) // refused if there are other tickets
	}
	if row.Value == nil {
		return next, true
	}
	made := row.Version == 0 || alone
	if made {
		next.gen, next.version, old.version = lockerkit.NewID(), 1, 0
		p.add(makes, path, r.create(path, nil, 0))
	}
	if marker := next.marker(path); made || old.state != next.state {
		p.add(guards, marker, r.create(marker, nil, 0))
	} else {
		p.add(marks, marker, exists(marker))
	}
	data := head{next.state, next.gen, row.KeepFor, min(row.HeldFor, keepMax), next.record}.pack(row.Value)
	p.add(guards, path, write(path, data, old.version)) // only a write tells the transaction's id
	return next, true
}

// alone reports whether a write is refused if there are other tickets beside
// the row.
func alone(row *rowlocker.Row, old tag) bool {
	return row.Value == nil || old.state != other && (row.Alone || stateOf(row.Value) == other)
}

// planBlind writes a row whatever is there.
func (r *rows) planBlind(p *pending, row *rowlocker.Row) {
	path := r.path(row.Key)
	h, value := head{state: blind, keep: row.KeepFor + partLonger}, row.Value
	if p.split == row {
		h.state, h.gen, value = split, p.part, value[p.partLen:]
	}
	switch {
	case row.Value == nil && p.gone[path]:
	case row.Value == nil:
		p.add(drops, path, remove(path, anyVersion))
	case p.there[path]:
		p.add(sets, path, write(path, h.pack(value), anyVersion))
	default:
		p.add(remakes, path, r.create(path, h.pack(value), 0))
	}
}

// messageMax is the longest row that a message carries.
const messageMax = 4 << 10

// planMessages tells processes of rows.
func (r *rows) planMessages(p *pending) {
	for _, m := range p.change.Tell {
		row := p.change.Rows[m.Row]
		slot := r.slot(m.To, rowSlot(row.Key))
		if p.gone[slot] {
			continue
		}
		text := message{row.Key, p.tags[m.Row], row.Value}
		if len(row.Value) > messageMax {
			text.value = nil
		}
		purpose := tells
		if m.Must {
			purpose = must
		}
		p.ops = append(p.ops, op{purpose, slot, m.To, write(slot, text.pack(), anyVersion)})
	}
}
