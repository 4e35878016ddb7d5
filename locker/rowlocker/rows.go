// Package rowlocker is a [locker.Locker] on any store that can compare and swap
// rows. Authors of a store implement [Rows], and optionally [Ears] and [Pulse].
//
// The protocol is a pure function on a row, see row.apply. A request applies it
// to the row that it knows, and swaps the row. If somebody else has changed the
// row meanwhile, the refusal brings the row, and the request begins anew. No
// lock is held over a round trip.
package rowlocker

import (
	"context"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// Rows are a store of rows that can compare and swap. Its methods are safe for
// concurrent use, and end when their ctx does.
//
// An error is a [locker.ErrUnavailable] if the outcome is not known, with
// [locker.ErrUnsent] if nothing was done. Other errors are final.
//
// Three laws: a Change is done as a whole or not at all, and all of it is seen
// at once. The versions of a key never fall, not even across a deletion, and
// each write has a higher one. ErrUnsent is true.
type Rows interface {
	Traits() Traits
	// Open checks settings and sends nothing.
	Open() error
	// Load returns the rows of keys, in that order, with Version 0 for none.
	Load(ctx context.Context, keys []string) ([]Row, error)
	// Swap carries out the changes, each by itself. They may travel together.
	// No two are about one key. Each tells by its Done how it went.
	Swap(ctx context.Context, changes []*Change) error
	// Scan returns rows behind after in the order of their keys, n at most.
	Scan(ctx context.Context, after string, n int) ([]Row, error)
	// Check returns the findings about the store. A probe took that long, or
	// has failed.
	Check(ctx context.Context, ttl, took time.Duration, failed error) error
	Close()
}

// Traits are what the Locker must know of a store.
type Traits struct {
	Name  string
	Clock bool          // the rows have Written and Now
	Grain time.Duration // of that clock
	// Blind says that Swap tells Version and Written, and that a refusal costs
	// no more than a read. A row that is known, or not known to be there, is
	// then written without a read.
	Blind  bool
	Limits locker.Limits
	// Members says that Rows are Ticketing, and that Join, Leave and Beside work
	// for shares.
	Members bool
	Workers int // requests at a time
	Batch   int // changes in one request
}

// Row is what the store has of a key. The value is the Locker's.
type Row struct {
	Key     string
	Version int64  // 0: there is none
	Value   []byte // of a row to be written: nil deletes it
	// Tag is the store's own, and comes back with a row that is written over
	// this one. Swap sets that of each row that it has written.
	Tag string

	// Written and Now are the time of the write and the present by the store's
	// clock, in µs. Zero: the store has none.
	Written, Now int64
	// Tickets stand beside a row that was read, in the order of their versions.
	Tickets []Ticket
	// Drop are the names of tickets that go with the write of the row. Alone
	// says that there must be no other tickets than that, or older ones.
	Drop   []Ticket
	Beside int64 // version of the newest ticket that is known
	Alone  bool
	// KeepFor is for how long the row means something, of a row that is
	// written. After that the store may drop it, and should. HeldFor is for how
	// long its key may be owned; 0: by nobody. After that a store without a
	// clock may say of a row that was read that it is Vacant, and should: who
	// never looked before finds the key free then.
	KeepFor, HeldFor time.Duration
	Vacant           bool
}

// Ticket is a claim that has queued up beside a row.
type Ticket struct {
	Name    string
	Version int64
	Value   []byte
}

// Ticketing are Rows beside which claims can queue up without a swap, so that
// those who come get in nobody's way. A Change with a Join has no Rows.
type Ticketing interface{ Tickets() }

// Glancing are Rows with tickets for which tickets cost requests of their own.
type Glancing interface {
	// Glance is Load for looks and joins: tickets of other processes may lack.
	Glance(ctx context.Context, keys []string) ([]Row, error)
}

// Join puts a ticket beside the row of Key, if that begins with an owner id.
type Join struct {
	Key string
	Tag string // of the row that is known
	Ticket
	To string // instance that is told, or ""

	// Open says that the ticket is a share, and that the row must begin with
	// "!/". Held says that the ticket must be there. It is replaced, or deleted
	// if Leave.
	Open, Held, Leave bool
	KeepFor           time.Duration // of a share
}

// Any is the Version of a row that replaces whatever is there.
const Any = -1

// Change is one step.
type Change struct {
	Rows []Row // to be written; Version is the one that must be there
	Join *Join // or nil
	Tell []Message
	// Loose says that a crash of the store may undo the step: it makes nobody
	// an owner, and keeps no record.
	Loose bool

	// Done says that the step was carried out, with rows of this Version at
	// that time. A store with a clock may leave both 0, and is then read before
	// each write.
	Done    bool
	Version int64
	Written int64
	Current []Row    // if not Done: what is there for each of Rows
	Dead    []string // if not Done: processes without a pulse that must hear
	Err     error    // why it was not Done, if that is no error of the others
}

// Message is a row that a process should know.
type Message struct {
	To   string // instance
	Row  int    // which of Change.Rows
	Must bool   // the step is not done unless the process has a pulse
}

// Ears are Rows that bring messages.
type Ears interface {
	// Listen calls hear for each message to the instance until ctx ends, and
	// awake when messages may have been missed, as at first. A row without a
	// Value was too long for a message. A row without a Version has one new
	// ticket only.
	Listen(ctx context.Context, instance string, hear func(Row), awake func())
}

// Pulse are Rows that tell which processes are alive.
type Pulse interface {
	// Beat sees to it that the instance has a pulse, which ends some seconds
	// after the last Beat, or with its process.
	Beat(ctx context.Context, instance string) error
	// Dead returns those that have none.
	Dead(ctx context.Context, instances []string) ([]string, error)
}

// Explaining are Rows that say what it means that no answer came.
type Explaining interface {
	// Unanswered returns the ErrUnavailable of a call that was made at that
	// time, and given up because of err. With [locker.ErrSilent] if the store
	// was asked since, and has answered nobody.
	Unanswered(since time.Time, err error) error
}

// Worker are Rows that work in the background until ctx ends.
type Worker interface{ Work(ctx context.Context) }
