package postgreslocker

import (
	"sync"
	"sync/atomic"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
)

// book has the claims of this process, and of which of them messages tell, and
// is safe for concurrent use.
type book struct {
	channel string         // to which messages for this process come
	hears   atomic.Bool    // the connection that listens has heard itself
	bell    lockerkit.Bell // rings if there is something to poll for
	used    func()         // is called before there is something to hear of

	mu     sync.Mutex // guards what follows; never held across I/O or a callback
	queued map[string]*locker.Claim
	owned  map[string]owned // by owner id, until somebody waits
}

// newBook returns the book of a process. The server cuts a longer name of a
// channel.
func newBook(instance string) *book {
	return &book{
		channel: "guard:" + instance, bell: make(lockerkit.Bell, 1),
		queued: make(map[string]*locker.Claim), owned: make(map[string]owned),
	}
}

// owned is a key that a claim of this process owns.
type owned struct {
	key string
	// told says that the row names a channel that was heard when a request last
	// wrote it, and ever since. A message then tells of claims that wait.
	told bool
}

// channelNow is the channel, with '-' in front while nobody listens there.
func (b *book) channelNow() string {
	if b.hears.Load() {
		return b.channel
	}
	return "-" + b.channel
}

// remember keeps c among the claims that wait here.
func (b *book) remember(c *locker.Claim) {
	b.mu.Lock()
	b.queued[c.Owner] = c
	b.mu.Unlock()
	b.used()
	if !b.hears.Load() {
		b.bell.Ring()
	}
}

// owns keeps an owner. channel is the one in its row.
func (b *book) owns(key, owner, channel string) {
	b.mu.Lock()
	told := b.own(key, owner, channel)
	b.mu.Unlock()
	b.used()
	if !told {
		b.bell.Ring()
	}
}

// granted is owns for a claim that waits here. If it owns its key already, or
// is over, granted does nothing.
func (b *book) granted(key, owner, channel string) {
	b.mu.Lock()
	told := b.queued[owner] == nil || b.own(key, owner, channel)
	b.mu.Unlock()
	if !told {
		b.bell.Ring()
	}
}

// own is owns with b.mu held. own reports whether messages tell who waits.
func (b *book) own(key, owner, channel string) (told bool) {
	told = b.tells(channel)
	delete(b.queued, owner)
	b.owned[owner] = owned{key, told}
	return told
}

// renewed notes that a request has put channel into the rows of owners.
func (b *book) renewed(owners map[string]bool, channel string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for owner := range owners {
		if o, ok := b.owned[owner]; ok {
			o.told = b.tells(channel)
			b.owned[owner] = o
		}
	}
}

// tells reports whether a message to the channel of a row is heard. The caller
// has b.mu, so that untold comes later if hears changes.
func (b *book) tells(channel string) bool { return channel == b.channel && b.hears.Load() }

// untold notes that messages about the owners here may get lost.
func (b *book) untold() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for owner, o := range b.owned {
		o.told = false
		b.owned[owner] = o
	}
}

func (b *book) forget(owner string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.queued, owner)
	delete(b.owned, owner)
}

// wanted notes that others wait for the key of owner, and reports whether that
// is new.
func (b *book) wanted(owner string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, first := b.owned[owner]
	delete(b.owned, owner)
	return first
}

// claim returns a claim that waits here, or nil.
func (b *book) claim(owner string) *locker.Claim {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.queued[owner]
}

// waiting returns the claims that are in a queue.
func (b *book) waiting() (cs []*locker.Claim) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.queued {
		cs = append(cs, c)
	}
	return cs
}

// watched returns the claims that wait here, unless messages come, and those
// that own their keys without being told who waits.
func (b *book) watched() (keys [][]byte, owners []string) {
	hears := b.hears.Load()
	b.mu.Lock()
	defer b.mu.Unlock()
	for owner, c := range b.queued {
		if !hears {
			keys, owners = append(keys, []byte(c.Key)), append(owners, owner)
		}
	}
	for owner, o := range b.owned {
		if !hears || !o.told {
			keys, owners = append(keys, []byte(o.key)), append(owners, owner)
		}
	}
	return keys, owners
}
