package etcdlocker

import (
	"context"
	"encoding/json"
	"iter"
	"regexp"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
)

const (
	listPage    = 500
	strangerMax = 64 // bytes of a stranger's value that are shown
)

// Inspect returns the owner of key and the claims that wait for it, in one
// request. Remaining is exact to the last look of this process, and the whole
// TTL if it has never looked.
func (l *Locker) Inspect(ctx context.Context, key string) (locker.KeyState, error) {
	if err := l.gate.Enter(); err != nil {
		return locker.KeyState{}, err
	}
	defer l.gate.Leave()
	r, err := l.txn(ctx, nil, []clientv3.Op{
		clientv3.OpGet(l.lockKey(key)), prefixed(l.queueOf(key), clientv3.WithLimit(locker.MaxListed)),
		clientv3.OpGet(l.recordKey(key)),
	}, nil)
	if err != nil {
		return locker.KeyState{}, unclear(err)
	}
	s := locker.KeyState{Key: key}
	if locks := rangeOf(r, 0).Kvs; len(locks) > 0 {
		l.showOwner(&s, locks[0])
	}
	queue := rangeOf(r, 1)
	for _, kv := range queue.Kvs {
		showWaiter(&s, kv)
	}
	s.Waiting = int(queue.Count)
	if r, ok := l.counts(key, only(rangeOf(r, 2)), only(rangeOf(r, 0))); ok {
		s.Record = locker.RecordState{Size: len(r.value), Remaining: r.ttl}
	}
	return s, nil
}

func (l *Locker) showOwner(s *locker.KeyState, kv *mvccpb.KeyValue) {
	s.Held = true
	owner, r, ok := parse(kv.Value)
	if !ok {
		s.Owner = strings.ToValidUTF8(string(kv.Value[:min(len(kv.Value), strangerMax)]), "?")
		return
	}
	s.Owner, s.Holder, s.Remaining = owner, r.Holder, r.ttl()
	l.mu.Lock()
	defer l.mu.Unlock()
	if seen, ok := l.seen[s.Key]; ok && seen.revision == kv.ModRevision {
		s.Remaining = seen.left(time.Now())
	}
}

func showWaiter(s *locker.KeyState, kv *mvccpb.KeyValue) {
	var e entry
	if json.Unmarshal(kv.Value, &e) != nil {
		return
	}
	s.Waiting++
	if len(s.Waiters) < locker.MaxListed {
		s.Waiters = append(s.Waiters, locker.Waiter{Owner: e.Owner, Holder: e.Record.Holder})
	}
}

// List returns the state of each key, in the order of their names. It reads 500
// entries at a time.
func (l *Locker) List(ctx context.Context) iter.Seq2[locker.KeyState, error] {
	return func(yield func(locker.KeyState, error) bool) {
		if err := l.gate.Enter(); err != nil {
			yield(locker.KeyState{}, err)
			return
		}
		defer l.gate.Leave()
		l.list(ctx, yield)
	}
}

func (l *Locker) list(ctx context.Context, yield func(locker.KeyState, error) bool) {
	begin := l.prefix + "{"
	from, end := begin, endOf(begin)
	var s locker.KeyState // of the key whose entries are being read; Key is "" before the first
	for {
		r, err := l.client().Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(listPage))
		if err != nil {
			yield(locker.KeyState{}, unclear(err))
			return
		}
		for _, kv := range r.Kvs {
			key, rest, ok := strings.Cut(string(kv.Key[len(begin):]), "}")
			if !ok || key == "" {
				continue
			}
			if key != s.Key {
				if s.Key != "" && !yield(s, nil) {
					return
				}
				s = locker.KeyState{Key: key}
			}
			if rest == "" {
				l.showOwner(&s, kv)
			} else {
				showWaiter(&s, kv)
			}
		}
		if !r.More || len(r.Kvs) == 0 {
			break
		}
		from = string(r.Kvs[len(r.Kvs)-1].Key) + "\x00"
	}
	if s.Key != "" {
		yield(s, nil)
	}
}

var ownerID = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// ForceRelease ends the hold of owner on key, hands the key over, and tells the
// owner's process.
func (l *Locker) ForceRelease(ctx context.Context, key, owner string) error {
	if len(owner) != locker.OwnerLen || !ownerID.MatchString(owner) {
		return lockerkit.Invalid(store, "%q is no owner id", owner)
	}
	s, err := l.Inspect(ctx, key)
	if err != nil {
		return err
	}
	if s.Owner != owner {
		return errNotOwner
	}
	if err := l.gate.Enter(); err != nil {
		return err
	}
	defer l.gate.Leave()
	if _, err := l.free(ctx, key, owner, nil); err != nil {
		return err
	}
	if lease, err := l.placeLease(ctx); err == nil && s.Holder.Instance != "" { // a hint
		m := message{Kind: revoked, Key: []byte(key), Owner: owner}
		_, _ = l.client().Put(ctx, l.inboxOf(s.Holder.Instance), encode(m), clientv3.WithLease(lease))
	}
	return nil
}
