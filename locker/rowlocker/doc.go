// Package rowlocker is a [locker.Locker] on any store that can compare and swap
// rows. It is for authors of a store. Users choose a store, such as etcdlocker
// or sqlitelocker, and pass it to guard.New.
//
// An author implements [Rows], which has seven methods, and returns New(rows).
// The example is a whole store, in 120 lines. The Locker does the rest: it
// keeps the laws of package locker, with queue and hand-over, shared leases and
// permits, several keys, records and marks, and it batches, renews, polls and
// tries again.
//
// This package is experimental. It may change before version 1.0.
//
// # Three laws
//
//  1. A [Change] is done as a whole or not at all, and all of it is seen at
//     once. A Load may be behind what others have done. It is never behind what
//     this process has written, or was refused for.
//  2. The versions of a key never fall. Each write has a higher one than all
//     before it, even if the row was deleted between.
//  3. [locker.ErrUnsent] is true: nothing was done, and nothing will be. Where
//     that is not known, the error is a [locker.ErrUnavailable] alone.
//
// Other errors are final, as that of a right which is missing.
//
// # Time
//
// A store with a clock that all processes share tells it with each row, see
// [Traits].Clock. In a store without one, each process that looks measures a
// lease from when it first saw the version that began it. Others then find the
// key of a dead process taken for up to one TTL longer. [Traits].Limits must
// say so.
//
// A row that means nothing any more is of no effect, so a store may delete it
// when it likes. Yet it should, see [Row].KeepFor.
//
// # What else a store can do
//
// It says so by further methods:
//
//	[Ears]        brings messages: a hand-over needs no look. Without it, the
//	              Locker looks every 10 to 60 ms while a claim waits or owns a key
//	[Pulse]       tells which processes are alive: claims that wait write nothing
//	[Ticketing]   queues claims beside a row: those who come are in nobody's way
//	[Explaining]  tells what it means that no answer came
//	[Worker]      has something to do in the background
//
// With Ears, [NewListener] makes a Locker whose keys may linger.
//
// # Tests
//
// The tests of a store run lockertest.Run, and lockertest.RunFaulty with each
// way in which the store can fail. Both say which law of package locker was
// broken. Most often the cause is one of the three laws above.
//
// # How it works
//
// The protocol is a pure function on a row, row.apply. A request applies it to
// the row that it knows, and swaps the row. If somebody else has changed the
// row meanwhile, the refusal brings the row, and the request begins anew. No
// lock is held over a round trip.
package rowlocker
