package rowlocker

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// recordSuffix is behind a key in the key of the row with the value of its
// record. No caller's key has a '%' before an 'r'.
const recordSuffix = "%record"

// inlineMax is the longest record that stands in the row of its key. Of a
// longer one, the row has the head.
const inlineMax = 512

// wire is a row as it stands in the store, behind the id of an owner that is
// alone and a '/'. So a store that compares values can compare who that is.
type wire struct {
	Token  int64    `json:"t,omitempty"`
	Owners []share  `json:"o,omitempty"`
	Queue  []waiter `json:"q,omitempty"`
	Record *record  `json:"r,omitempty"`
	Revoke bool     `json:"x,omitempty"` // this write has taken the key from somebody
	Beside bool     `json:"b,omitempty"` // shares stand beside a row that was open
	Unsure int      `json:"u,omitempty"` // see row

	open  bool   // opened stands in front of the '/'
	value []byte // that says this
}

// read returns what the Value of a row says, or nil. Nobody changes it. Copies
// of the Row have it from then on, as long as they have the Value.
func (r *Row) read() *wire {
	if w := r.says; w != nil && len(w.value) == len(r.Value) && &w.value[0] == &r.Value[0] {
		return w
	}
	name, text, ok := bytes.Cut(r.Value, []byte("/"))
	w := &wire{open: string(name) == opened, value: r.Value}
	if !ok || json.Unmarshal(text, w) != nil {
		return nil
	}
	r.says = w
	return w
}

// stranger is the owner in a row that cannot be read. It never ends. Nobody
// queues up behind it, so that such a row is never written over: a newer
// version of this package may be able to read it.
const stranger = "?"

// decode returns the row that src is. now is the time of this process, which
// counts if the store has no clock.
func decode(src *Row, t *Traits, sights *memory, now int64) *row {
	r := &row{
		version: src.Version, tag: src.Tag, now: src.Now, seq: src.Now, grain: t.Grain.Microseconds(),
		blocks: !t.Clock, single: t.Single,
	}
	stamp := src.Written
	base := func(since int64) int64 { return since }
	if !t.Clock {
		r.now, r.seq, stamp = now, src.Version, src.Version
		base = func(since int64) int64 { return sights.first(src.Key, since, now) }
	}
	r.wrote = stamp
	at := func(since, length int64) term {
		if since == 0 {
			since = stamp
		}
		return term{since, length, add(base(since), length)}
	}
	if w := src.read(); w != nil {
		r.fill(w, src, at)
	} else if src.Version > 0 {
		r.owners = []share{{Owner: stranger, Limit: 1, term: term{stamp, forever, forever}}}
		return r
	}
	r.merge(src, base)
	for _, s := range r.owners {
		if s.Limit > 1 {
			r.shared = append(r.shared, s.Owner)
		}
	}
	r.settle()
	return r
}

// fill sets what stands in the value of a row. at returns when something ends.
func (r *row) fill(w *wire, src *Row, at func(since, length int64) term) {
	r.open, r.closing, r.revokes, r.unsure = w.open, w.Beside, w.Revoke, w.Unsure
	r.token = tokenOf(src.Version, w.Token)
	r.owners, r.queue = slices.Clone(w.Owners), slices.Clone(w.Queue)
	r.held = r.alone() != nil
	for i := range r.owners {
		s := &r.owners[i]
		s.fresh, s.beside = s.Since == 0, false
		s.term, s.Token = at(s.Since, s.Length), tokenOf(src.Version, s.Token)
		if src.Vacant {
			s.Ends = min(s.Ends, r.now)
		}
	}
	for i := range r.queue {
		q := &r.queue[i]
		t := at(q.Since, 0)
		q.Since, q.Seen, q.beside = t.Since, t.Ends, false
	}
	if w.Record != nil {
		r.record = *w.Record
		r.record.term = at(r.record.Since, r.record.Length)
		r.record.dirty, r.record.oldSize = false, r.record.Size
	}
	if src.Forgot {
		r.record.Ends = min(r.record.Ends, r.now)
	}
}

// opened stands in place of the owner id in a row that says: shared, and nobody
// waits. Shares then come and go as tickets beside it, with member before their
// owner ids.
const (
	opened = "!"
	member = "m."
)

// openFor is how long such a row stays when nobody shares it.
const openFor = 10 * time.Second

// merge puts the claims with tickets into their places in the queue, and those
// that share the key into the crowd.
func (r *row) merge(src *Row, base func(int64) int64) {
	r.tickets = src.Tickets
	beside := src.Version == 0 || r.open || r.closing // or they have gone, and nobody has told
	for _, t := range src.Tickets {
		if strings.HasPrefix(t.Name, member) {
			var s share
			if beside && json.Unmarshal(t.Value, &s) == nil && !r.owned(s.Owner) && r.alone() == nil {
				s.Since, s.Ends, s.beside = t.Version, add(base(t.Version), s.Length), true
				r.owners = append(r.owners, s)
			}
			continue
		}
		var w waiter
		if json.Unmarshal(t.Value, &w) != nil || r.waits(w.Owner) || r.owned(w.Owner) {
			continue
		}
		if w.Place == 0 {
			w.Place = t.Version
		}
		w.Since, w.Seen, w.beside = t.Version, base(t.Version), true
		r.insert(w)
	}
}

const forever = math.MaxInt64 / 2

func add(a, b int64) int64 {
	if a > forever-b {
		return forever
	}
	return a + b
}

// encode returns the rows to be written for a row of key, first that of key. r
// does not change any more, because the first says what r does.
func encode(key string, r *row, t *Traits) []Row {
	name, stays := r.opens(t.Members)
	rows := []Row{{Key: key, Version: r.version, Tag: r.tag, Alone: name == ""}}
	main := &rows[0]
	owners := r.owners
	if t.Members {
		main.Alone = r.exact(name)
	}
	if stays {
		owners = slices.DeleteFunc(slices.Clone(owners), func(s share) bool { return s.beside })
	}
	stay := r.staying(stays)
	main.Marks = r.marks(stay)
	for _, t := range r.tickets {
		main.Beside = max(main.Beside, t.Version)
	}
	var queue []waiter
	queue, main.Drop = r.merged(stay)
	main.Alone = main.Alone || r.verify
	if own := r.alone(); own != nil && len(queue) == 0 {
		main.Unaware = own.Inst
	}
	w := &wire{
		Token: r.token, Owners: owners, Queue: queue, Record: r.remembered(), open: name == opened,
		Beside: stays && name != opened, Revoke: len(r.revoked) > 0,
	}
	if t.Tickets && !main.Alone {
		w.Unsure = r.unsure + len(r.heirs)
	}
	main.HeldFor, main.KeepFor = r.spans(name, t)
	if r.record.dirty {
		if w.Record != nil {
			main.RecordFor = spanOf(r.record.Length)
		}
		value := Row{Key: key + recordSuffix, Version: Any}
		if w.Record != nil && r.long(r.record.Size) {
			value.Value, value.KeepFor = append([]byte(r.record.Owner+"/"), r.record.Value...), main.RecordFor
		}
		if value.Value != nil || r.long(r.record.oldSize) {
			rows = append(rows, value)
			main = &rows[0]
		}
	}
	if !t.Clock && r.free() && len(r.queue) == 0 && w.Record == nil && name != opened {
		return rows // deleted
	}
	text, err := json.Marshal(w)
	if err != nil {
		w, text = &wire{open: w.open}, []byte("{}") // a holder that is no JSON, which describe never makes
	}
	w.value = append([]byte(name+"/"), text...)
	main.Value, main.says, main.KeepFor = w.value, w, max(main.KeepFor, time.Microsecond)
	return rows
}

// remembered returns what stands of the record in the row of its key, or nil.
func (r *row) remembered() *record {
	if r.left() == nil {
		return nil
	}
	l := r.record
	if r.long(l.Size) {
		l.Value = l.Value[:min(len(l.Value), locker.RecordHead)]
	}
	return &l
}

// spans returns for how long somebody may own the key, and for how long the row
// means something. name is what it begins with.
func (r *row) spans(name string, t *Traits) (held, kept time.Duration) {
	last := r.now
	for _, s := range r.owners {
		last = max(last, s.Ends)
	}
	held = spanOf(last - r.now)
	if len(r.queue) > 0 {
		last = max(last, r.now+locker.QueueLife.Microseconds())
	}
	if name == opened {
		last = max(last, r.now+openFor.Microseconds())
	}
	if l := r.left(); l != nil {
		last = max(last, l.Ends)
	}
	if t.Clock && r.token > 0 { // no token of the row must be given again, nor a lower one
		last = max(last, r.token) + unreadFor.Microseconds()
	}
	return held, spanOf(last - r.now)
}

// unreadFor is how long a row with tokens stays for those who have read, before
// it was written, that there is none. Their tokens would be of that time.
const unreadFor = time.Minute

// mergeMax is how many tickets a write takes into the row of a key that one
// claim owns. The others stay where they are, or the row would grow with each
// hand-over.
const mergeMax = 16

// staying returns the names of the tickets of shares that stay beside the row.
// A process may have renewed a share that has ended as it was read.
func (r *row) staying(stays bool) map[string]bool {
	stay := map[string]bool{}
	if !stays {
		return stay
	}
	for _, s := range r.settled {
		stay[member+s.Owner] = s.beside && !r.over(s)
	}
	for _, s := range r.owners {
		stay[member+s.Owner] = s.beside
	}
	return stay
}

// over reports whether a share has ended so long ago that no renewal of it can
// be under way. That counts only if the share was just read.
func (r *row) over(s share) bool { return s.Ends <= r.now-unreadFor.Microseconds() }

// merged returns the queue that is written into the row, and the tickets that
// go with that: those of claims that are in it, or wait no more. Those of
// shares that stay are in stay.
func (r *row) merged(stay map[string]bool) (queue []waiter, drop []Ticket) {
	n := 0
	for _, w := range r.queue {
		if w.beside {
			if n++; n > mergeMax && r.alone() != nil {
				stay[w.Owner] = true
				continue
			}
			w.Told = ""
		}
		queue = append(queue, w)
	}
	for _, t := range r.tickets {
		if !stay[t.Name] {
			drop = append(drop, t)
		}
	}
	return queue, drop
}

// marks returns the marks of the shares that this write changes. The tickets of
// those in stay do not.
func (r *row) marks(stay map[string]bool) (marks []Mark) {
	for _, s := range r.owners {
		if s.Since == 0 && s.Limit > 1 {
			marks = append(marks, Mark{s.Owner, time.Duration(s.Length) * time.Microsecond})
		}
	}
	for _, owner := range r.shared {
		if r.share(owner) == nil && !stay[member+owner] {
			marks = append(marks, Mark{Owner: owner})
		}
	}
	return marks
}

// spanOf returns a time of so many µs, or the longest.
func spanOf(micros int64) time.Duration {
	if micros < 0 || micros > int64(math.MaxInt64/time.Microsecond) {
		return math.MaxInt64
	}
	return time.Duration(micros) * time.Microsecond
}

// opens returns what the row that is written begins with, and whether the
// shares with tickets keep them.
func (r *row) opens(members bool) (name string, stays bool) {
	if own := r.alone(); own != nil {
		return own.Owner, false
	}
	free := r.record.Owner == "" && len(r.queue) == 0
	if members && free && (r.open || !r.free()) && !r.limited() {
		return opened, true
	}
	// Those who share an open row come and go. The row is first closed, with
	// their tickets beside it: from then on they go by swaps.
	return "", r.open
}

// exact reports whether there must be no unknown tickets beside the row that
// is written.
func (r *row) exact(name string) bool {
	switch {
	case r.held: // tickets of claims that wait
		return r.alone() == nil
	case r.open && name == opened:
		return false
	case r.open && r.alone() == nil && !r.free() && !r.record.dirty:
		return r.limited()
	}
	return true
}

// limited reports whether an owner allows only so many beside it.
func (r *row) limited() bool {
	return slices.ContainsFunc(r.owners, func(s share) bool { return s.Limit < locker.NoLimit })
}
