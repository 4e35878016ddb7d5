package etcdlocker

import (
	"context"
	"encoding/json"
	"iter"
	"regexp"
	"slices"
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
	if err := l.life.Enter(); err != nil {
		return locker.KeyState{}, err
	}
	defer l.life.Leave()
	r, err := l.txn(ctx, nil, []clientv3.Op{
		l.owners(key), prefixed(l.queueOf(key), clientv3.WithLimit(locker.MaxListed)),
		clientv3.OpGet(l.recordKey(key)),
	}, nil)
	if err != nil {
		return locker.KeyState{}, l.unclear(err)
	}
	s := locker.KeyState{Key: key}
	for _, kv := range rangeOf(r, 0).Kvs {
		l.show(&s, kv)
	}
	queue := rangeOf(r, 1)
	for _, kv := range queue.Kvs {
		showWaiter(&s, kv)
	}
	s.Waiting = int(queue.Count)
	if r, ok := l.counts(key, only(rangeOf(r, 2)), l.lockIn(key, rangeOf(r, 0).Kvs)); ok {
		s.Record = locker.RecordState{
			Size: len(r.value), Remaining: r.ttl, Head: r.value[:min(len(r.value), locker.RecordHead)],
		}
	}
	return s, nil
}

// lockIn returns the key of a claim that owns it alone, or nil.
func (l *Locker) lockIn(key string, owners []*mvccpb.KeyValue) *mvccpb.KeyValue {
	if len(owners) == 0 || string(owners[0].Key) != l.lockKey(key) {
		return nil
	}
	return owners[0]
}

// show adds what kv says to the state of its key.
func (l *Locker) show(s *locker.KeyState, kv *mvccpb.KeyValue) {
	switch rest := strings.TrimPrefix(string(kv.Key), l.lockKey(s.Key)); {
	case rest == "":
		l.showOwner(s, kv)
	case strings.HasPrefix(rest, "/m/"):
		l.showShare(s, kv)
	default:
		showWaiter(s, kv)
	}
}

func (l *Locker) showShare(s *locker.KeyState, kv *mvccpb.KeyValue) {
	owner, r, ok := parse(kv.Value)
	if !ok {
		return
	}
	s.Held = true
	if s.Limit == 0 || r.Limit < s.Limit {
		s.Limit = r.Limit
	}
	if len(s.Owners) < locker.MaxListed {
		s.Owners = append(s.Owners, locker.Waiter{Owner: owner, Holder: r.Holder})
	}
	s.Remaining = max(s.Remaining, l.remaining(string(kv.Key), kv, r))
}

// remaining is exact to the last look of this process at the revision.
func (l *Locker) remaining(name string, kv *mvccpb.KeyValue, r record) time.Duration {
	if seen, ok := l.sights.Seen(name, kv.ModRevision); ok {
		return seen.Left(time.Now())
	}
	return r.ttl()
}

func (l *Locker) showOwner(s *locker.KeyState, kv *mvccpb.KeyValue) {
	s.Held = true
	owner, r, ok := parse(kv.Value)
	if !ok {
		s.Owner = strings.ToValidUTF8(string(kv.Value[:min(len(kv.Value), strangerMax)]), "?")
		return
	}
	s.Owner, s.Holder, s.Remaining = owner, r.Holder, l.remaining(s.Key, kv, r)
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

// List returns the state of each key, in the order of their names. List reads
// 500 entries at a time.
func (l *Locker) List(ctx context.Context) iter.Seq2[locker.KeyState, error] {
	return func(yield func(locker.KeyState, error) bool) {
		if err := l.life.Enter(); err != nil {
			yield(locker.KeyState{}, err)
			return
		}
		defer l.life.Leave()
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
			yield(locker.KeyState{}, l.unclear(err))
			return
		}
		for _, kv := range r.Kvs {
			key, _, ok := strings.Cut(string(kv.Key[len(begin):]), "}")
			if !ok || key == "" {
				continue
			}
			if key != s.Key {
				if s.Key != "" && !yield(s, nil) {
					return
				}
				s = locker.KeyState{Key: key}
			}
			l.show(&s, kv)
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
	holder, shared := s.Holder, false
	if i := slices.IndexFunc(s.Owners, func(o locker.Waiter) bool { return o.Owner == owner }); i >= 0 {
		holder, shared = s.Owners[i].Holder, true
	} else if s.Owner != owner {
		return errNotOwner
	}
	if err := l.life.Enter(); err != nil {
		return err
	}
	defer l.life.Leave()
	if shared {
		_, err = (&step{l: l, key: key, owner: owner}).leave(ctx)
	} else {
		_, err = l.free(ctx, key, owner, nil)
	}
	if err != nil {
		return err
	}
	if lease, err := l.placeLease(ctx); err == nil && holder.Instance != "" { // a hint
		m := message{Kind: revoked, Key: []byte(key), Owner: owner}
		_, _ = l.client().Put(ctx, l.inboxOf(holder.Instance), encode(m), clientv3.WithLease(lease))
	}
	return nil
}
