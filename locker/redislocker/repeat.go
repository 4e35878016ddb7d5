package redislocker

import (
	"context"
	"sync"
	"time"

	"github.com/go-lockguard/guard/internal/limits"
	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/internal/redisconn"
)

const (
	repeatMost  = 4096                   // max releases kept; more push the oldest out
	repeatTick  = 150 * time.Millisecond // between two looks at where the keys live
	repeatLooks = 3                      // looks in a row that find a key elsewhere before it is released again
	repeatChunk = 256                    // releases looked at under one hold of the mutex
)

// repeater keeps the releases of the last TTL, and the claims that were given
// up. A release sent to a primary that has just been replaced is lost. The new
// primary then still has the key, although its owner has long released it, and
// nobody gets it until its TTL ends. So when a key lives elsewhere than before,
// repeater releases it once more by this owner id. That harms nobody, because
// an owner id never comes back.
type repeater struct {
	primary func(key string) string // where key lives, as far as the client knows: asks nobody
	// ask sends a request to the primary of each key, so that the client learns
	// where the key is.
	ask  func(ctx context.Context, keys []string)
	free func(key, owner string) // releases key in the background
	life *lockerkit.Life         // of the goroutine that watches; at most one
	trip *redisconn.Trip         // to the primary; nil: it is near

	mu       sync.Mutex // guards the fields below; never held across I/O
	ring     []ended    // grows to repeatMost, and is then overwritten from next on
	next     int
	watching bool
}

// ended is a release.
type ended struct {
	key, owner string
	at         string    // where key lived when the release was sent
	until      time.Time // when the key has ended by its TTL
	seen       int       // looks in a row that found key elsewhere
}

// note keeps a release that is about to be sent, of a key with this TTL. It is
// called within a call of the life. A nil repeater keeps none.
func (r *repeater) note(key, owner string, ttl time.Duration) {
	if r == nil {
		return
	}
	e := ended{key: key, owner: owner, at: r.primary(key), until: time.Now().Add(ttl)}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.ring) < repeatMost {
		r.ring = append(r.ring, e)
	} else {
		r.ring[r.next] = e
		r.next = (r.next + 1) % repeatMost
	}
	if !r.watching {
		r.watching = true
		r.life.Serve(r.watch) // ends with the life, or when the ring has nothing left to look at
	}
}

// watch looks at where the keys live, as long as the ring has releases.
func (r *repeater) watch() {
	tick := time.NewTicker(repeatTick)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-r.life.Context().Done():
			return
		}
		keys := r.sample()
		if len(keys) == 0 {
			return
		}
		ctx, cancel := context.WithTimeout(r.life.Context(), limits.Apart(r.trip.Patience(2*repeatTick)))
		r.ask(ctx, keys)
		cancel()
		r.look()
	}
}

// sample returns one key for each place where keys live. If there is none, all
// TTLs in the ring have ended, and the watcher ends.
func (r *repeater) sample() (keys []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, places := time.Now(), map[string]bool{}
	for i := range r.ring {
		if e := &r.ring[i]; !places[e.at] && now.Before(e.until) {
			places[e.at] = true
			keys = append(keys, e.key)
		}
	}
	if keys == nil {
		r.ring, r.next, r.watching = nil, 0, false
	}
	return keys
}

// look releases again the keys that live elsewhere now. It does so after
// repeatLooks looks in a row that found this. Others may still be with the old
// primary and hold the keys there.
func (r *repeater) look() {
	var again []ended
	for from := 0; ; from += repeatChunk {
		r.mu.Lock()
		chunk := r.ring[min(from, len(r.ring)):min(from+repeatChunk, len(r.ring))]
		now := time.Now()
		for i := range chunk {
			e := &chunk[i]
			at := r.primary(e.key)
			switch {
			case at == "" || at == e.at:
				e.seen = 0
				continue
			case now.After(e.until):
				continue
			}
			if e.seen++; e.seen == repeatLooks {
				e.at, e.seen = at, 0
				again = append(again, *e)
			}
		}
		r.mu.Unlock()
		if len(chunk) == 0 {
			break
		}
	}
	for _, e := range again {
		r.free(e.key, e.owner)
	}
}
