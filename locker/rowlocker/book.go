package rowlocker

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
)

// book has the claims of this process that the lookout looks for, and is safe
// for concurrent use.
type book struct {
	bell lockerkit.Bell // wakes the lookout

	mu     sync.Mutex           // guards the maps below; never held across I/O or a callback
	queued map[string]*waiting  // by owner id: claims that may wait in the table
	owned  map[string]hold      // by owner id: claims that own their keys here
	ended  map[string]time.Time // by owner id: claims that were taken out of a queue because nobody looked
}

func newBook() *book {
	return &book{
		bell: make(lockerkit.Bell, 1), queued: map[string]*waiting{}, owned: map[string]hold{},
		ended: map[string]time.Time{},
	}
}

// waiting is a claim that may be in a queue. Its entry is replaced, never
// changed.
type waiting struct {
	claim *locker.Claim
	// sent is when the last look was sent, or the Release that queued the
	// claim.
	sent time.Time
	// seen is the time by the store's clock when that was answered, at least. 0
	// says that it was not, or that there is no clock.
	seen int64
}

// looks notes that a request is about to be sent that may queue c, or see it
// queued.
func (b *book) looks(c *locker.Claim) {
	w := &waiting{claim: c, sent: time.Now()}
	b.mu.Lock()
	b.queued[c.Owner] = w
	b.mu.Unlock()
	b.bell.Ring()
}

// saw notes that the last look at a claim was answered at a time by the store's
// clock.
func (b *book) saw(owner string, now int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if w := b.queued[owner]; w != nil {
		b.queued[owner] = &waiting{w.claim, w.sent, now}
	}
}

// hold is a claim of this process that owns its key.
type hold struct {
	key  string
	over time.Time // when the lease is over for this process; zero: the store says it
	told bool      // the guard has heard that others wait
}

// owns notes that owner owns key here, until a time if that is not zero. If the
// claim was over before, owns returns false: its key is given back.
func (b *book) owns(key, owner string, until time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.ended[owner]; ok {
		return false
	}
	b.owned[owner] = hold{key, until, false}
	b.bell.Ring()
	return true
}

// renewed notes that the lease of owner lasts until a time, if that is not
// zero. It returns false if the claim was over before.
func (b *book) renewed(owner string, until time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if h, ok := b.owned[owner]; ok {
		h.over = until
		b.owned[owner] = h
	}
	_, ended := b.ended[owner]
	return !ended
}

// forget drops what is known of owner.
func (b *book) forget(owner string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.queued, owner)
	delete(b.owned, owner)
}

// lapsed reports whether the lease of owner is over.
func (b *book) lapsed(owner string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.ended[owner]; ok {
		return true
	}
	return b.owned[owner].past(time.Now())
}

// past reports whether the lease is over for this process.
func (h hold) past(now time.Time) bool { return !h.over.IsZero() && now.After(h.over) }

// ended is a claim that is over for this process.
type ended struct{ key, owner string }

// inOrder returns each of the claims once, in the order of their keys, so that
// what is done about them repeats in virtual time.
func inOrder(all []ended) []ended {
	slices.SortFunc(all, func(a, b ended) int {
		return cmp.Or(strings.Compare(a.key, b.key), strings.Compare(a.owner, b.owner))
	})
	return slices.Compact(all)
}

// over forgets the claims at which nobody has looked for QueueLife, and those
// whose leases are over, and returns them. They never come back.
func (b *book) over() (gone []ended) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	for owner, w := range b.queued {
		if now.Sub(w.sent) > locker.QueueLife {
			gone = append(gone, ended{w.claim.Key, owner})
		}
	}
	for owner, h := range b.owned {
		if h.past(now) {
			gone = append(gone, ended{h.key, owner})
		}
	}
	for _, e := range gone {
		delete(b.queued, e.owner)
		delete(b.owned, e.owner)
		b.ended[e.owner] = now
	}
	for owner, t := range b.ended {
		if now.Sub(t) > time.Hour {
			delete(b.ended, owner)
		}
	}
	return inOrder(gone)
}

// hasEnded reports whether the claim was taken out because nobody looked.
func (b *book) hasEnded(owner string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, ok := b.ended[owner]
	return ok
}

// leave forgets the claims that wait, and returns them.
func (b *book) leave() (gone []ended) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for owner, w := range b.queued {
		gone = append(gone, ended{w.claim.Key, owner})
	}
	clear(b.queued)
	return inOrder(gone)
}

// waits reports whether a claim waits here.
func (b *book) waits() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.queued) > 0
}

// watched returns the keys for which claims wait here, and those that they own
// here while nobody was seen to wait.
func (b *book) watched() (keys []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	seen := make(map[string]bool, len(b.queued)+len(b.owned))
	add := func(key string) {
		if !seen[key] {
			seen[key] = true
			keys = append(keys, key)
		}
	}
	for _, w := range b.queued {
		add(w.claim.Key)
	}
	for _, h := range b.owned {
		if !h.told {
			add(h.key)
		}
	}
	slices.Sort(keys) // so that a run in virtual time repeats
	return keys
}

// found notes that owner owns its key, with others behind it or not. found
// returns the claim if that waited here, and whether the guard must hear of the
// others. The guard hears that once, because the owner will hand the key over.
// until is as that of owns, for a claim that waited here. One that waits no
// more has found its grant by itself, and its lease may be longer.
func (b *book) found(owner string, others bool, until time.Time) (w *waiting, wanted bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w = b.queued[owner]
	h, owned := b.owned[owner]
	wanted = owned && others && !h.told
	delete(b.queued, owner)
	if w != nil && !owned { // in the same step, or the owner may be over before
		h.key, h.over, owned = w.claim.Key, until, true
	}
	if owned {
		h.told = h.told || others
		b.owned[owner] = h
	}
	return w, wanted
}

// lost returns the claims of this process that are not among the owners of
// their key, as the book has it.
func (b *book) lost(key string, r *row) (owners []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for owner, h := range b.owned {
		if h.key == key && !r.owned(owner) {
			owners = append(owners, owner)
		}
	}
	return owners
}

// finders returns the claims that waited here for key and find a record in its
// row, and forgets them.
func (b *book) finders(key string, r *row) (owners []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for owner, w := range b.queued {
		if w.claim.Key == key && w.claim.Recall && !r.owned(owner) && !r.waits(owner) {
			owners = append(owners, owner)
			delete(b.queued, owner)
		}
	}
	slices.Sort(owners) // so that a run in virtual time repeats
	return owners
}
