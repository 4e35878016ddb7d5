package rowlocker

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/go-lockguard/guard/locker"
)

const (
	// closeTries is how often who closes an open row may be refused because
	// others come and go beside it.
	closeTries = 3
	// unsureMax is how many claims may get a key ahead of one whose ticket no
	// owner knows. The message about a ticket may reach an owner that has just
	// handed the key over, and its heirs hear nothing of the ticket.
	unsureMax = 16
)

// plan returns the Change that carries out what a task has made of its row, or
// nil if the row must be read first.
func (d *desk) plan(t *task) *Change {
	if c := d.memberOf(t); c != nil {
		return c
	}
	if c := d.joinOf(t); c != nil {
		return c
	}
	if t.sure && !t.glanced {
		t.r.unsure = 0
	}
	misses := t.r.unsure > 0 && len(t.r.tickets) > 0 // Alone would pass over an older one
	if t.r.unsure >= unsureMax && len(t.r.heirs) > 0 {
		if misses && !t.sure {
			return nil
		}
		t.r.verify = !misses
	}
	c := d.changeOf(t)
	main := &c.Rows[0]
	closes := t.r.open && len(main.Value) > 0 && main.Value[0] == '/'
	if closes && t.tries <= closeTries {
		main.Alone = true // all who share the key are told
	}
	queues := slices.ContainsFunc(t.qs, func(q *request) bool { return q.next != "" })
	over := slices.ContainsFunc(t.r.settled, t.r.over)
	if !t.sure && (t.r.closing || t.r.open && (main.Alone || queues || over) || closes ||
		t.r.held && main.Alone && misses) {
		return nil // who shares the key, or waits for it, must be known exactly
	}
	return c
}

// memberOf returns the Change of a task by which a share comes to an open row,
// is renewed, or goes, or nil.
func (d *desk) memberOf(t *task) *Change {
	r := t.r
	if !d.traits.Members || !r.open || len(t.qs) != 1 || t.refused || len(r.queue) > 0 || r.alone() != nil ||
		!t.results[0].ok || r.record.Owner != "" || r.record.dirty {
		return nil
	}
	q, own := t.qs[0], r.share(t.qs[0].owner)
	name := member + q.owner
	there := slices.ContainsFunc(r.tickets, func(t Ticket) bool { return t.Name == name })
	j := &Join{Key: t.key, Tag: r.tag, Ticket: Ticket{Name: name}, Open: true}
	comes := q.verb == acquire && q.limit >= locker.NoLimit && !q.fencing && !q.recall
	switch {
	case comes || q.verb == renew && there:
		isOwn := func(s share) bool { return s.Owner == q.owner }
		if own == nil || slices.ContainsFunc(t.src.read().Owners, isOwn) { // it stands in the row
			return nil
		}
		own.Since, j.Held, j.KeepFor = 0, !comes, spanOf(q.ttl)
		j.Value, _ = json.Marshal(own)
		return &Change{Join: j}
	case q.verb == release && q.next == "" && there && own == nil:
		j.Leave, j.Held = true, true
		return &Change{Join: j, Loose: true}
	}
	return nil
}

// joinOf returns the Change of a task that only joins the queue of a key which
// one claim owns, or nil. A claim that comes again at its place, or that nobody
// has heard of, joins by a swap: whoever hands the key over must know of it.
func (d *desk) joinOf(t *task) *Change {
	r := t.r
	own := r.alone()
	if !d.traits.Tickets || len(t.qs) != 1 || !r.joined || t.refused || own == nil || r.version == 0 || own.Lingers ||
		len(r.heirs) > 0 {
		return nil
	}
	q := t.qs[0]
	there := slices.ContainsFunc(r.tickets, func(t Ticket) bool { return t.Name == q.owner })
	if q.verb != acquire || q.recall || q.try.Place != 0 || !t.results[0].queued || there {
		return nil
	}
	w := q.waiter(0, 0)
	w.Told = own.Inst
	value, err := json.Marshal(w)
	if err != nil {
		return nil
	}
	j := &Join{Key: t.key, Tag: r.tag, Ticket: Ticket{Name: q.owner, Value: value}, KeepFor: locker.QueueLife}
	if own.Inst != d.instance {
		j.To = own.Inst
	}
	return &Change{Join: j, Loose: true}
}

// changeOf returns the Change that writes the row of a task, and tells it to
// those whom it concerns.
func (d *desk) changeOf(t *task) *Change {
	if len(t.r.heirs) == 0 && t.r.unheard() { // this write puts their tickets into the row
		t.r.joined = true
	}
	c := &Change{Rows: encode(t.key, t.r, &d.traits), Loose: t.r.loose()}
	if _, hears := d.rows.(Ears); !hears {
		return c
	}
	at := map[string]int{}
	tell := func(to string, must bool) {
		if to == "" || to == d.instance {
			return
		}
		i, ok := at[to]
		if !ok {
			i = len(c.Tell)
			at[to], c.Tell = i, append(c.Tell, Message{To: to})
		}
		c.Tell[i].Must = c.Tell[i].Must || must && d.pulse != nil
	}
	for _, w := range t.r.heirs {
		tell(w.Inst, true)
	}
	for _, instance := range t.r.hearers() {
		tell(instance, false)
	}
	return c
}

// hearers returns the instances to which the write of r tells that others wait,
// that there is a record, or that a key was taken from them.
func (r *row) hearers() (instances []string) {
	instances = append(instances, r.revoked...)
	for _, w := range r.finds {
		instances = append(instances, w.Inst)
	}
	if r.joined {
		for _, s := range r.owners {
			instances = append(instances, s.Inst)
		}
	}
	return instances
}

// joined notes that a ticket of this process stands beside a row, or has gone.
func (d *desk) joined(t *task) {
	j := t.change.Join
	j.Version = t.change.Version
	src, ok := d.memory.stands(t.key, j.Ticket, j.Leave)
	if j.Open {
		return
	}
	t.results[0].place = j.Version
	t.answeredAt(j.Version)
	if ok && t.r.alone().Inst == d.instance && d.told != nil {
		d.told(t.key, d.decode(&src), nil, time.Now())
	}
}

// settle notes that the change of a task was carried out, which was sent at
// that time. The claims of this process are told as others are by messages.
func (d *desk) settle(t *task, sent time.Time) {
	main := t.change.Rows[0]
	switch {
	case main.Value == nil:
		d.memory.keep(Row{Key: t.key})
	case t.change.Version == 0: // the next Load tells it
		d.memory.keep(main)
	default:
		main.Version, main.Written = t.change.Version, t.change.Written
		main.Tickets, main.Drop, main.Alone = d.memory.left(t.key, main.Drop), nil, false
		d.memory.clock(t.change.Written)
		d.memory.keep(main)
		if !d.traits.Clock {
			d.memory.first(t.key, main.Version, d.memory.now())
		}
		d.memory.tidy(t.key, t.r)
	}
	t.answeredAt(t.change.Written)
	for i := range t.results {
		t.results[i].token = tokenOf(t.change.Version, t.results[i].token)
	}
	t.r.version = t.change.Version
	if d.told == nil {
		return
	}
	var heirs []waiter
	for _, w := range t.r.heirs {
		if w.Inst == d.instance && !t.asks(w.Owner) {
			heirs = append(heirs, w)
		}
	}
	if len(heirs) > 0 || slices.Contains(t.r.hearers(), d.instance) {
		d.told(t.key, t.r, heirs, sent)
	}
}
