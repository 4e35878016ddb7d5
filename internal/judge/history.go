package judge

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// visit is the record of one call.
type visit struct {
	*lifetime

	nth          int64 // its number in its life
	key          int
	limit        int  // how many may have the key at once; 0 and 1 mean that it is alone
	cart         bool // one of several keys of a call
	asked, bound int64
	got          int64 // when the wait ended, with the key or without
	token        uint64
	untold       bool // the store did not answer which token it is
	err          string
	has          bool // whether it got the key

	until   int64 // the library trusted the lease until then, as far as known; 0 if it does not tell
	held    int64 // when it was last seen to be held
	lost    int64 // when the holder was told that it was lost
	exit    int64 // when the section was over; 0 if it is not, or its worker was killed first
	closing bool
	wrote   int64
	refused bool
	taken   bool  // its release found that another holder had the key
	freed   int64 // when that was
	probe   *Probe
	inner   uint64 // token of a call for the same key inside; 0 if none, or not known
	denied  bool   // whether that call was refused
}

// lifetime is one worker process, as the judge sees it.
type lifetime struct {
	proc, number int
	ttl          time.Duration
	from, to     int64
	killed       bool
	failure      string // what it did wrong
	frozen       []Span // times in which it was stopped or felt a stall, without overlaps
	stops        []Span // only the times in which it was stopped
	visits       []*visit
	asked        []Record // of calls whose result is kept
	closed       *Record
}

func (v *visit) id() string { return fmt.Sprintf("%d.%d.%d", v.proc, v.number, v.nth) }

// History is everything that is known of a run.
type History struct {
	lives  []*lifetime
	keys   [][]*visit // visits that got their key, by key, in that order
	byID   map[string]*visit
	log    [][]Entry // of the guarded resource, by key
	faults []Fault
	most   time.Duration // the longest TTL

	forgetful []forgetful

	complete bool // whether the run is over
}

// Life is one worker process and what it has recorded.
type Life struct {
	Proc, Number int
	TTL          time.Duration // of its leases
	From, To     int64         // when it ran; To is 0 while it runs
	Killed       bool
	Failure      string // what it did wrong
	Stops        []Span // times in which it was stopped
	Records      []Record
}

// Past is what is known of a run.
type Past struct {
	Lives     []Life
	Faults    []Fault
	Elections []Span        // times in which servers became primaries or ceased to be
	Log       [][]Entry     // of the guarded resource, by key, in its order
	Most      time.Duration // the longest TTL
	Complete  bool          // whether the run is over
}

// Entry is one write of the guarded resource.
type Entry struct {
	Kind  byte // f: to the fenced counter, r: refused there, u: to the other
	ID    string
	Token uint64
	Base  int64 // the value that was read
}

// NewHistory puts the records of a run in order.
func NewHistory(p Past) *History {
	h := &History{
		complete: p.Complete, most: p.Most, keys: make([][]*visit, len(p.Log)), byID: map[string]*visit{},
		log: p.Log, faults: p.Faults,
	}
	for _, f := range h.faults {
		if f.Forgets {
			h.forgetful = append(h.forgetful, h.newForgetful(f))
		}
	}
	for _, s := range p.Elections {
		h.forgetful = append(h.forgetful, h.newForgetful(Fault{Span: s}))
	}
	for _, l := range p.Lives {
		life := readLife(l)
		h.lives = append(h.lives, life)
		for _, v := range life.visits {
			if v.has {
				h.keys[v.key] = append(h.keys[v.key], v)
				h.byID[v.id()] = v
			}
		}
	}
	for _, visits := range h.keys {
		slices.SortFunc(visits, func(a, b *visit) int { return cmp.Compare(a.got, b.got) })
	}
	return h
}

func readLife(l Life) *lifetime {
	t := &lifetime{
		proc: l.Proc, number: l.Number, ttl: l.TTL, from: l.From, to: l.To,
		killed: l.Killed, failure: l.Failure, stops: l.Stops,
	}
	frozen := slices.Clone(l.Stops)
	byNumber := map[int64]*visit{}
	for _, r := range l.Records {
		switch r.Kind {
		case KindGot, KindNot:
			v := &visit{
				lifetime: t, nth: r.N, key: r.Key, asked: r.Asked, bound: r.Bound, got: r.At,
				token: r.Token, err: r.Err, limit: r.Limit, cart: r.Cart,
				has: r.Kind == KindGot, untold: r.Kind == KindGot && r.Err != "",
				until: r.Until, held: r.At, closing: r.Closing,
			}
			t.visits = append(t.visits, v)
			byNumber[r.N] = v
		case KindEnd:
			if v := byNumber[r.N]; v != nil {
				v.end(r)
			}
		case KindFreed:
			if v := byNumber[r.N]; v != nil {
				v.freed, v.taken, v.err = r.At, r.Taken, r.Err
			}
		case KindStall:
			frozen = append(frozen, Span{r.Asked, r.At})
		case KindClosed:
			t.closed = &r
		case KindBegan, KindUndone, KindResult:
			t.asked = append(t.asked, r)
		}
	}
	t.frozen = apart(frozen)
	for _, v := range t.visits { // killed in its section: held until the time that the library told at its begin
		if v.has && v.exit == 0 && t.killed && v.until != 0 {
			v.held = max(v.got, t.to)
		}
	}
	return t
}

func (v *visit) end(r Record) {
	v.until, v.lost, v.exit, v.closing, v.wrote, v.refused, v.err = r.Until, r.Lost, r.At, r.Closing,
		r.Wrote, r.Refused, r.Err
	v.held, v.probe = max(v.got, r.Held), r.Probe
	v.inner, v.denied = r.Inner, r.Denied
}

// promised returns the time until which v alone may have held its key. The key
// was seen to be held, and not beyond the time that the library told. If the
// library has no clock, the promise ends when its process first did not run.
func (v *visit) promised() int64 {
	if v.until != 0 {
		return max(v.got, min(v.held, v.until))
	}
	end := v.held
	for _, s := range v.frozen {
		if s.To > v.got && s.From < end {
			end = max(v.got, s.From)
			break
		}
	}
	return end
}

// over returns the time at which v's section was over.
func (v *visit) over() int64 {
	switch {
	case v.exit != 0:
		return v.exit
	case v.to != 0:
		return v.to
	}
	return math.MaxInt64
}

func (v *visit) String() string {
	at := func(stamp int64) string {
		if stamp == 0 {
			return "-"
		}
		return fmt.Sprintf("%.6f", float64(stamp)/1e9)
	}
	return fmt.Sprintf("%s %s key %d token %d: asked %s, got %s, trusted to %s, seen held %s, told of loss %s, over "+
		"%s, wrote %s %s",
		v.id(), v.role(), v.key, v.token, at(v.asked), at(v.got), at(v.until), at(v.held), at(v.lost),
		at(v.exit), at(v.wrote), v.err)
}

// forgetful is a time in which two may hold a key, because the servers have
// lost confirmed changes. It lasts from such a fault until all earlier leases
// have ended.
type forgetful struct {
	Span
	token uint64 // a grant with a higher token came after the loss; 0 if not known
}

func (h *History) newForgetful(f Fault) forgetful {
	if f.To == math.MaxInt64 {
		return forgetful{Span: f.Span}
	}
	w := forgetful{Span: Span{f.From, f.To + int64(h.most+200*time.Millisecond)}}
	if f.AtOnce {
		w.token = uint64(f.Over.UnixMicro()) // the server's clock is this machine's
	}
	return w
}

// forgets reports whether the servers may have lost x's lease, or one that its
// holder had before, between two times.
func (h *History) forgets(x *visit, from, to int64) bool {
	return slices.ContainsFunc(h.forgetful, func(w forgetful) bool {
		return w.touches(from, to) && (w.token == 0 || x.token <= w.token)
	})
}

// around returns the faults near a span, for a text.
func (h *History) around(from, to int64) fmt.Stringer { return surroundings{h, Span{from, to}} }

type surroundings struct {
	history *History
	span    Span
}

func (s surroundings) String() string {
	var text strings.Builder
	for _, f := range s.history.faults {
		if f.touches(s.span.From-int64(s.history.most), s.span.To) {
			text.WriteString("\n    fault: " + f.String())
		}
	}
	return text.String()
}

// apart returns spans in order of time, without overlaps.
func apart(spans []Span) []Span {
	slices.SortFunc(spans, func(a, b Span) int { return cmp.Compare(a.From, b.From) })
	var out []Span
	for _, s := range spans {
		if n := len(out); n > 0 && s.From <= out[n-1].To {
			out[n-1].To = max(out[n-1].To, s.To)
		} else {
			out = append(out, s)
		}
	}
	return out
}
