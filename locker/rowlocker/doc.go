// Package rowlocker is a [locker.Locker] on any store that can compare and swap
// rows. This page is for the author of such a store. Users choose a store, such
// as etcdlocker, and need nothing of this package. It is experimental until
// version 1.0 of the module: names may change.
//
// The author implements [Rows], seven methods, and passes it to [New]:
//
//	type Locker struct{ *rowlocker.Locker }
//
//	func New(db *client) *Locker { return &Locker{rowlocker.New(&rows{db})} }
//
// The Locker does the rest, and keeps the laws of package locker. It has queues
// and hand-overs, shared leases and permits, fencing tokens, records and marks.
// It makes batches, tries again, and does what must be done in the background.
// The example is a whole store in memory.
//
// # How it works
//
// All that the Locker knows of a key stands in one row: who owns it, who waits,
// and the record. A call reads the row, changes it by a pure function, and
// swaps it. If somebody else has written the row meanwhile, the refusal of the
// swap brings the row, and the call begins anew. No lock is held over a round
// trip. A process that hangs or dies keeps nobody from the store.
//
// With [Traits].Blind, a call on a row that is known, or not known to be there,
// is sent as a swap without a read. To acquire a free key and to release it is
// then one request each.
//
// # The three laws
//
//  1. A [Change] is done as a whole or not at all, and all of it is seen at
//     once. A crash of the store does not undo it, unless it is Loose.
//  2. Each write of a row has a higher version than all writes of that key
//     before, even if the row was deleted in between. One counter for the whole
//     store will do. Without Clock, versions stay below 2^47, because fencing
//     tokens are made of them.
//  3. ErrUnsent is true: nothing was done, and nothing will be.
//
// A Load may be behind what others have been told. It is never behind what
// refused a Swap of this process, nor behind what this process has written. A
// Load thus reads from the primary, from a majority, or by the connection that
// has written. With a [Pulse] and without Clock, it is not behind what was
// written before it was sent either, or by the Grain at most. A claim that is
// told to wait counts an offer from there.
//
// # Time
//
// Durations are [time.Duration], and times of a store's clock are µs. A store
// has a Clock if each answer brings the time of the write of the row and the
// present by one and the same clock, that of the server. Leases then end by it.
//
// Without Clock each process measures a lease of others by its own clock, from
// its first sight of the version in which the lease began. A waiter thus finds
// the key late by a look, which [locker.Limits].Late tells: [locker.LookEvery].
// A process that has never looked would wait for a whole TTL. To spare it that,
// the store deletes a row when [Row].KeepFor is over. Of a row that stays it
// says in a read that it is Vacant, when HeldFor is over, and Forgot, when
// RecordFor is. LateForOthers is by how much it is late with that. It does none
// of them too early: all of these times begin when the store has got the write.
// A store that can only delete does without Vacant and Forgot, and a key with a
// record is then late for others by a TTL.
//
// A store with Clock must keep a row for KeepFor, which may be much longer than
// the lease, because its tokens stand there. Without Clock the last release
// deletes the row.
//
// # What a store can have beside that
//
// Rows may have [Ears] for messages and a [Pulse] that tells who is alive, and
// be [Glancing], [Explaining] and a [Worker]. Their [Traits] may have Tickets
// and Members, for claims that stand beside the row. Each is worth a number of
// requests, or time, and says there what it is for. Begin with none.
//
// A message is a hint: one that is lost, late, old or doubled costs time. It
// means nothing any more after [locker.QueueLife].
//
// # Errors
//
// The Locker passes errors on to the guard, which decides by these:
//
//	locker.ErrUnavailable   no clear answer: the request may have been carried
//	                        out. The guard tries again, and asks what it is.
//	locker.ErrUnsent        with it: nothing was done, by law 3. A refused
//	                        connection is one, and an answer that says so.
//	locker.ErrSilent        with it: nobody answers at all, see there.
//	any other               trying again cannot help, as without a right, or
//	                        with a record that is too large. It ends a call
//	                        that acquires. A holder is told ErrUnavailable.
//
// The store wraps each in an error that says what happened and what to do, with
// the name of its package in front, and never with a key. The end of ctx is an
// ErrUnavailable. A conflict is no error but a refusal: Done is false. If a
// store refuses one Change of several for good, that one gets Err.
//
// Load and Scan need not say ErrUnsent. A Swap that sends changes one by one
// gives each its Done or its Err, and returns nil. It is as well to have a
// Batch of 1 then, and more Workers.
//
// # Concurrency
//
// All methods are called concurrently, from the goroutines of the Locker, but
// for Open, which comes first, and Close, which comes last. Load and Swap have
// Workers calls in flight for the calls of the guard. Up to four more renew
// leases, and one polls. Two calls in flight may be about one key. The Locker
// holds no lock while it calls the Rows. hear and awake of [Ears] may be called
// concurrently, and from any goroutine. They may call the Rows.
//
// # Sizes
//
// A row has about 200 bytes, and as many for each claim that waits or shares. A
// record beyond 512 bytes stands in a row of its own that is written with
// Version [Any] in the same Change, up to [locker.MaxRecord]. With Single it
// stands in the row of its key, in base64: a request of 1.4 MB must be possible
// then.
//
// # Steps that a store does not have
//
// A store without steps of several rows sets Single. A key-value store with
// revisions and time-to-live has all that is needed: a create for Version 0, an
// update for another, a delete by revision, and a put for Any. It must delete
// by revision too, or a stale process deletes the row of a new owner. If the
// revision of a key that was deleted begins anew, the store would break law 2.
// It writes an empty row in place of the delete, and reads that as a Row of
// Version 0 with a Tag.
//
// If a request has no answer, the store may have carried it out. It says
// ErrUnavailable, and does not try again by itself: a second try would be
// refused by the first. Clients that repeat requests by themselves must be told
// not to.
//
// # Tests
//
// lockertest.Run checks the store against all laws of package locker, and
// lockertest.RunFaulty against a server that gives no answer. RunVirtual runs
// the first in virtual time if the store can run in memory. Run them with -race
// and several times. Tests of its own that every store needs: a deleted row
// that comes back (law 2), what Check finds, and a process that was killed
// while it owned and while it waited.
package rowlocker
