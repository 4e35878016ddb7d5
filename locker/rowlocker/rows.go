package rowlocker

import (
	"context"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// Rows are a store of rows that can compare and swap. The documentation of the
// package has the three laws that its author keeps.
//
// The methods are safe for concurrent use. Load, Swap, Scan and Check block
// until the store has answered, and end when their ctx does. That ctx has a
// deadline, even if that of the caller has none.
type Rows interface {
	// Traits returns what the Locker must know of the store. It is called at
	// any time, and returns the same always.
	Traits() Traits

	// Open checks settings, sends nothing, and does not block. A setting that
	// cannot be used is a [locker.ErrInvalidOption].
	Open() error

	// Load returns the rows of keys, of which there are up to 500, in that
	// order, with Version 0 for a key that has none. Each is read for itself:
	// they need be no snapshot.
	Load(ctx context.Context, keys []string) ([]Row, error)

	// Swap carries out changes, each by itself: as a whole, or not at all. They
	// may travel together. No two are about one key, and the order in which
	// they are done does not matter.
	//
	// Swap fills in the results of each Change, see there. A refusal is a
	// result. An error says nothing of any of the changes, unless it is a
	// [locker.ErrUnsent], which says that none was carried out.
	Swap(ctx context.Context, changes []*Change) error

	// Scan returns the rows with keys behind after, in the order of their keys
	// as they stand in Row, n at most, with their tickets. Fewer than n are the
	// last. Some may have Version 0.
	Scan(ctx context.Context, after string, n int) ([]Row, error)

	// Check returns what is wrong with the store and its settings, see
	// [locker.Locker.Check]. Before that the Locker has acquired and released a
	// key that nobody uses. The acquire took that long, or failed is the error.
	// Check returns failed, or what it knows better: a [locker.Finding]. The
	// Locker adds "round-trip" itself. The acquire may have used up ctx.
	Check(ctx context.Context, ttl, took time.Duration, failed error) error

	// Close ends what Open and the methods have begun. It is called once, after
	// Open, when no other method is called any more.
	Close()
}

// Traits are what the Locker must know of a store.
type Traits struct {
	// Name is that of the store's package, for errors.
	Name string

	// Clock says that each Row that is read has Written and Now, and each
	// Change that was done has Written. Grain is the resolution of that clock.
	// Without Clock it is by how much a Load may be behind, see the package.
	Clock bool
	Grain time.Duration

	// Blind says that Swap tells the Version of what it has done, and Current
	// of what it has refused. A row that is known, or not known to be there, is
	// then written without a read. A store that has to read after a refusal may
	// set it: a conflict costs it one request more.
	Blind bool

	// Single says that a Change has one Row. The store can then keep no record
	// that is too large for the row of its key, and the guard acquires several
	// keys one after the other.
	Single bool

	// Tickets says that claims can queue up beside a row by a [Join], so that
	// those who come get in nobody's way: from about 8 processes on twice the
	// rate on a hot key. There should be a [Pulse]. Members says that Join.Open
	// works, too: shared leases come and go beside the row.
	Tickets, Members bool

	// Limits and Findings are those of [locker.Capabilities].
	Limits   locker.Limits
	Findings []string

	Workers int // calls of Load and Swap at a time, but for renewals; 0 is 1
	Batch   int // changes of one Swap at most; 0 is 1
}

// Any is the Version of a Row that is written whatever is there.
const Any = -1

// Row is what a store has of a key. Which of the fields count depends on
// whether the Row was read or is to be written.
type Row struct {
	// Key is 1 to [locker.MaxKey] bytes and a suffix of up to 8. They need not
	// be valid UTF-8: a store that takes fewer kinds of bytes encodes it.
	Key string

	// Version is that of the last write. 0 is none: there is no row. Of a Row
	// to be written, it is the Version that must be there, or Any.
	Version int64

	// Value is the Locker's. It begins with the owner id and a '/' if one claim
	// owns the key alone. It is nil or not empty. Of a Row to be written, nil
	// deletes it. If the store leaves something behind then, a Row that was read
	// has Version 0 all the same, and may have a Tag. One with a Version and
	// without a Value that the Locker can read is held for good, and not
	// written any more.
	Value []byte

	// Tag is the store's own, for a store that compares something other than
	// Version. It comes back in the Row that is written over this one. Swap
	// sets the Tag of each Row that it has written. That of a deleted row is
	// forgotten, until a Load brings one with Version 0.
	Tag string

	// Written and Now are the time of the last write and the time of the read
	// by the store's clock, in µs since a fixed moment long ago. A store
	// without Clock leaves them 0. A Row of Version 0 has Now as well.
	Written, Now int64

	// Tickets stand beside a Row that was read, even one of Version 0.
	Tickets []Ticket

	// KeepFor is for how long a Row that is written means something. After that
	// the store may delete it, and should. It is above 0, but for a Row that is
	// deleted. HeldFor is for how long its key may be owned; 0: by nobody.
	//
	// Vacant says of a Row that was read in a store without Clock that HeldFor
	// is over for sure.
	KeepFor, HeldFor time.Duration
	Vacant           bool

	// RecordFor is for how long the record lasts that the write leaves beside
	// the key; 0: there is none, or it stays as it was. Forgot says of a Row
	// that was read in a store without Clock that this is over for sure.
	// Without it, a process that first sees the record prolongs it by a write.
	RecordFor time.Duration
	Forgot    bool

	// Drop are tickets that are deleted by the write, if they are there still.
	// Alone says that the write is refused if there is a ticket beside the row
	// with a version above Beside. Without Members, all that the Locker knows
	// of are in Drop then.
	Drop   []Ticket
	Alone  bool
	Beside int64

	// Unaware is, of a Row that is written, the instance that owns the key alone
	// and does not know yet that others wait, see [Join].
	Unaware string

	// Marks are owners with a limit above 1 that became owners by this write,
	// were renewed, or are no owners any more. A store may keep them for users
	// who compare owners in transactions of their own, see [locker.Hold]. Other
	// stores ignore them. Shares that come and go by a Join have none.
	Marks []Mark

	says *wire // what Value says, if it was read or written here
}

// Mark says that a claim owns a key beside others, for as long as KeepFor, or
// not any more if that is 0.
type Mark struct {
	Owner   string
	KeepFor time.Duration
}

// Ticket is a claim that stands beside a row: one that waits, or with Members
// one that shares the key.
type Ticket struct {
	Name string // up to 24 bytes of base64url and '.'
	// Version grows with each ticket. It is on the scale of Row.Version, or on
	// that of Row.Now with a Clock.
	Version int64
	Value   []byte
}

// Change is one step: of Rows, or of one Join. Its Tell are sent in the step,
// or right behind it.
type Change struct {
	Rows []Row
	Join *Join // then there are no Rows
	Tell []Message
	// Loose says that a crash of the store may undo the step: it makes nobody
	// an owner, and keeps no record.
	Loose bool

	// Done says that the step was carried out.
	Done bool
	// Version is the Version of all Rows that were written, or of the ticket.
	// Written is the time by a store with a Clock. Both may be 0 without Blind.
	Version int64
	Written int64
	// Current is, if not Done, what is there in place of each of Rows, or the
	// row of Join.Key. If what has refused the Change is still under way or has
	// gone, that may be a row on which it would be done: the Locker then sends
	// it again after a moment.
	Current []Row
	// Dead are, if not Done, processes without a pulse that must hear.
	Dead []string
	// Err is, if not Done, an error of this Change and no other, as the error
	// of Swap would be: the store refuses a record that is too large.
	Err error
}

// Message is a row that a process should know.
type Message struct {
	To   string // instance: 22 bytes of base64url
	Row  int    // which of Change.Rows, as it is written; it may be deleted
	Must bool   // only with [Pulse]: refused unless the process has one
}

// Join puts a ticket beside the row of Key, or takes it away. The step is
// refused unless the Value of the row begins with an owner id: with neither '/'
// nor "!/".
type Join struct {
	Key    string
	Tag    string // of the row that is known
	Ticket        // Version is set by Swap
	// To is the instance that is told of the ticket, or "": the owner, as the
	// row was known. A store that keeps Row.Unaware may tell that one instead,
	// and of the first ticket only.
	To string

	// Open, only with Members, says that the ticket is a share of the key. The
	// step is then refused unless the Value of the row begins with "!/". Held
	// says that the ticket must be there. It is replaced, or deleted if Leave.
	Open, Held, Leave bool
	// KeepFor is for how long the ticket means something. One without Open ends
	// with the pulse of its process in place of that, if there is a [Pulse].
	KeepFor time.Duration
}

// Ears are Rows that bring messages. A hand-over is heard at once, and keys can
// linger. Without them, or while Listen has brought none for a second, each
// process that waits looks every 10 to 60 ms.
type Ears interface {
	// Listen calls hear for each Message to instance, and awake once as soon as
	// all later messages will come. It blocks for as long as they do, and
	// returns when some may be missed, or ctx ends. The Locker calls it at the
	// first Acquire, and again a moment after it has returned.
	//
	// A Row without a Value was too long for a message, or is deleted. A Row
	// without a Version has one Ticket, of a Join, and nothing else. A Row has
	// Version and Tag, and Written with a Clock. hear and awake may block for a
	// request to the store.
	Listen(ctx context.Context, instance string, hear func(Row), awake func())
}

// Pulse are Rows that tell which processes are alive. Looks are then reads.
// Without it, each claim that waits writes its row twice a second.
type Pulse interface {
	// Beat sees to it that the instance has a pulse, which ends some seconds
	// after the last Beat, or with its process. It is called before each Change
	// that queues a claim and at each look of one, and should then mostly send
	// nothing.
	Beat(ctx context.Context, instance string) error

	// Dead returns those of instances that have no pulse.
	Dead(ctx context.Context, instances []string) ([]string, error)
}

// Glancing are Rows with tickets that cost requests of their own.
type Glancing interface {
	// Glance is Load for looks and joins: tickets of other processes may lack.
	// Those of this process are as old as the row that stands with them.
	Glance(ctx context.Context, keys []string) ([]Row, error)
}

// Explaining are Rows that say what it means that no answer came.
type Explaining interface {
	// Unanswered returns the [locker.ErrUnavailable] of a call that was made at
	// that time and given up because of err. It adds [locker.ErrSilent] if the
	// store was asked since and has answered nobody. It does not block.
	Unanswered(since time.Time, err error) error
}

// Worker are Rows that work in the background until ctx ends, as by deleting
// what means nothing any more.
type Worker interface{ Work(ctx context.Context) }
