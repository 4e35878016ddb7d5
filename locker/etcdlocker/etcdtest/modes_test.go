package etcdtest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/go-lockguard/guard/internal/faultpipe"
	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/etcdlocker"
	"github.com/go-lockguard/guard/locker/etcdlocker/etcdtest"
)

// counted is a locker whose requests are counted.
type counted struct {
	*etcdlocker.Locker
	lockerkit.Deaf
	prefix  string
	txns    atomic.Int32
	pulses  atomic.Int32 // of txns: a process writes its pulse again when its etcd lease has ended
	between atomic.Pointer[between]
	wrong   error // what was first in this round of quickly

	// These have room for all messages of a test.
	wanted  chan struct{}
	granted chan locker.Offer
}

func (c *counted) Wanted(string) { c.wanted <- struct{}{} }

func (c *counted) Granted(_, _ string, o locker.Offer) { c.granted <- o }

// between is what happens before a request, at the time that it counts as.
type between struct {
	before int32
	do     func()
}

func newCounted(t *testing.T, addr, prefix string) *counted {
	t.Helper()
	c := &counted{prefix: prefix, wanted: make(chan struct{}, 100), granted: make(chan locker.Offer, 100)}
	config := etcdtest.Config(addr)
	config.DialOptions = append(config.DialOptions, grpc.WithChainUnaryInterceptor(c.count))
	client, err := clientv3.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	c.Locker = etcdlocker.New(client, etcdlocker.WithPrefix(prefix))
	if err := c.Open(c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.WithoutCancel(t.Context())) })
	// A locker that hears nothing for a second looks by itself, and those
	// requests would count.
	until(t, "messages", func() (bool, error) { return c.Listens(), nil })
	return c
}

func (c *counted) count(
	ctx context.Context, method string, in, out any,
	cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	if strings.HasPrefix(method, "/etcdserverpb.KV/") {
		n := c.txns.Add(1)
		if c.isPulse(in) {
			c.pulses.Add(1)
		}
		if b := c.between.Load(); b != nil && b.before == n {
			b.do()
		}
	}
	return invoke(ctx, method, in, out, cc, opts...)
}

// isPulse reports whether a request writes a pulse and nothing else.
func (c *counted) isPulse(in any) bool {
	txn, ok := in.(*etcdserverpb.TxnRequest)
	return ok && len(txn.Success) == 1 &&
		strings.HasPrefix(string(txn.Success[0].GetRequestPut().GetKey()), c.prefix+"p/")
}

// beforeThe has do happen before the nth request from now.
func (c *counted) beforeThe(n int32, do func()) { c.between.Store(&between{c.txns.Load() + n, do}) }

func claimed(key string, limit int) *locker.Claim {
	return &locker.Claim{Key: key, Owner: lockerkit.NewID(), TTL: time.Minute, Limit: limit}
}

// requests is the number of requests so far, without pulses.
func (c *counted) requests() int { return int(c.txns.Load() - c.pulses.Load()) }

// quickly runs rounds with keys of their own, until one of them is right. One
// that is wrong fails t, unless it took so long that an offer or a place in the
// queue may have ended.
func (c *counted) quickly(t *testing.T, round func(key string)) {
	t.Helper()
	for n := range 100 {
		for len(c.wanted)+len(c.granted) > 0 { // of the round before
			select {
			case <-c.wanted:
			case <-c.granted:
			}
		}
		start := time.Now()
		c.wrong = nil
		round(fmt.Sprint("k", n))
		if c.wrong == nil {
			return
		}
		if time.Since(start) < time.Second { // the shortest of them
			t.Fatal(c.wrong)
		}
	}
	t.Fatal("the machine is too slow, and at last: ", c.wrong)
}

// costs checks, in a round of quickly, that what takes n requests of etcd
// beside pulses. Once something is wrong costs does nothing, as told.
func (c *counted) costs(n int, what string, do func() error) {
	if c.wrong != nil {
		return
	}
	before := c.requests()
	err := do()
	if got := c.requests() - before; err == nil && got != n {
		err = fmt.Errorf("%d requests, want %d", got, n)
	}
	if err != nil {
		c.wrong = fmt.Errorf("%s: %w", what, err)
	}
}

// told waits for news in a round of quickly.
func told[T any](c *counted, news chan T) {
	if c.wrong != nil {
		return
	}
	select {
	case <-news:
	case <-time.After(patience):
		c.wrong = errors.New("it hears nothing")
	}
}

// acquires wants the claim to own its key, or to be queued.
func (c *counted) acquires(t *testing.T, cl *locker.Claim, try locker.Try, want string) func() error {
	t.Helper()
	return func() error {
		a, err := c.Acquire(t.Context(), cl, try)
		if got := fmt.Sprintf("acquired %v queued %v", a.Acquired, a.Queued); err == nil && got != want {
			return fmt.Errorf("%s, want %s", got, want)
		}
		return err
	}
}

func (c *counted) mustAcquire(t *testing.T, cl *locker.Claim, try locker.Try, want string) {
	t.Helper()
	if err := c.acquires(t, cl, try, want)(); err != nil {
		t.Fatal(err)
	}
}

func (c *counted) releases(t *testing.T, cl *locker.Claim, handed bool) func() error {
	t.Helper()
	return func() error {
		r, err := c.Release(t.Context(), cl, locker.End{})
		if err == nil && r.Handed != handed {
			return fmt.Errorf("handed %v, want %v", r.Handed, handed)
		}
		return err
	}
}

const (
	owns   = "acquired true queued false"
	queues = "acquired false queued true"
)

func TestATurnAloneCostsNoMoreThanWithoutModes(t *testing.T) {
	t.Parallel()
	addr, prefix := store(t)
	c := newCounted(t, addr, prefix)
	wait := locker.Try{Wait: true}
	c.quickly(t, func(key string) {
		first, second := claimed(key, 0), claimed(key, 0)
		c.costs(1, "a free key", c.acquires(t, first, wait, owns))
		c.costs(1, "a held key", c.acquires(t, second, wait, queues))
		if c.pulses.Load() == 0 {
			t.Error("a process whose claim waits has no pulse")
		}
		c.costs(1, "a look", c.acquires(t, second, locker.Try{Wait: true, Queued: true}, queues))
		c.costs(1, "a renewal", func() (err error) {
			c.Renew(t.Context(), []*locker.Claim{first}, func(_ int, e error) { err = e })
			return err
		})
		told(c, c.wanted) // it knows the first in the queue
		c.costs(1, "a hand-over", c.releases(t, first, true))
		told(c, c.granted)
		c.costs(1, "a key that was handed over", c.acquires(t, second, locker.Try{Wait: true, Queued: true}, owns))
		c.costs(1, "the last release", c.releases(t, second, false))
	})
}

func TestWhatSharesAndPermitsCost(t *testing.T) {
	t.Parallel()
	addr, prefix := store(t)
	c := newCounted(t, addr, prefix)
	wait, look := locker.Try{Wait: true}, locker.Try{Wait: true, Queued: true}
	c.quickly(t, func(key string) {
		one, two, writer := claimed(key, locker.NoLimit), claimed(key, locker.NoLimit), claimed(key, 0)
		c.costs(1, "the first share", c.acquires(t, one, wait, owns))
		c.costs(1, "a further share", c.acquires(t, two, wait, owns))
		c.costs(1, "a renewal", func() (err error) {
			var errs [2]error // answers may come at once
			c.Renew(t.Context(), []*locker.Claim{one, two}, func(i int, e error) { errs[i] = e })
			return errors.Join(errs[:]...)
		})
		c.costs(2, "a claim that must be alone", c.acquires(t, writer, wait, queues))
		told(c, c.wanted) // its owners hear of it
		c.costs(1, "its look", c.acquires(t, writer, look, queues))
		c.costs(2, "the release of a share for which a claim waits", c.releases(t, one, true))
		c.costs(1, "a hand-over", c.releases(t, two, true))
		told(c, c.granted)
		c.costs(1, "a key that was handed over", c.acquires(t, writer, look, owns))

		readers := []*locker.Claim{claimed(key, locker.NoLimit), claimed(key, locker.NoLimit)}
		for _, r := range readers {
			c.costs(1, "a share of a key that is held", c.acquires(t, r, wait, queues))
		}
		c.costs(1, "a hand-over to several", c.releases(t, writer, true))
		told(c, c.granted)
		told(c, c.granted)
		for _, r := range readers {
			c.costs(1, "a share that was handed over", c.acquires(t, r, look, owns))
		}
		c.costs(1, "the release of a share", c.releases(t, readers[0], true))
		c.costs(1, "the last release of a share", c.releases(t, readers[1], false))

		p, q, r := claimed(key+" jobs", 2), claimed(key+" jobs", 2), claimed(key+" jobs", 2)
		c.costs(1, "the first permit", c.acquires(t, p, wait, owns))
		c.costs(1, "the second permit", c.acquires(t, q, wait, owns))
		c.costs(1, "a permit to wait for", c.acquires(t, r, wait, queues))
		c.costs(1, "a permit that is handed over", c.releases(t, p, true))
		c.costs(1, "a permit for which nobody waits", c.releases(t, q, true))
	})
}

func TestSeveralKeysCostOneRequest(t *testing.T) {
	t.Parallel()
	addr, prefix := store(t)
	c := newCounted(t, addr, prefix)
	var all []*locker.Claim
	for i := range locker.MaxSeveral {
		all = append(all, claimed(fmt.Sprint("k", i), 0))
	}
	together := func(cs []*locker.Claim, prefix bool, want int) func() error {
		return func() error {
			_, held, err := c.AcquireAll(t.Context(), cs, prefix)
			if err == nil && held != want {
				return fmt.Errorf("the key %d is held, want %d", held, want)
			}
			return err
		}
	}
	c.costs(1, "64 keys", together(all, false, len(all)))
	c.costs(1, "64 keys again", together(all, false, len(all)))
	before := c.txns.Load()
	c.ReleaseAll(t.Context(), all, make([]locker.End, len(all)), func(i int, _ locker.Released, err error) {
		if err != nil {
			t.Errorf("the release of %d: %v", i, err)
		}
	})
	if n := int(c.txns.Load() - before); n > len(all)/4 {
		t.Errorf("%d requests release 64 keys, want them together", n)
	}
	held := claimed("k2", 0)
	c.costs(1, "a free key", c.acquires(t, held, locker.Try{}, owns))
	some := []*locker.Claim{claimed("k0", 0), claimed("k1", 0), claimed("k2", 0), claimed("k3", 0)}
	c.costs(1, "none of several", together(some, false, 2))
	c.costs(2, "those in front of one that is held", together(some, true, 2))
	if c.wrong != nil {
		t.Error(c.wrong)
	}
}

// until polls the store for what is wanted, in any goroutine. A server has no
// virtual time.
func until(t *testing.T, wanted string, seen func() (bool, error)) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		ok, err := seen()
		switch {
		case err != nil || time.Now().After(end):
			t.Errorf("error %v, want %s", err, wanted)
			return
		case ok:
			return
		}
	}
}

// A process that is gone leaves a share, which etcd deletes some seconds after
// the TTL. Claims that wait measure the TTL by themselves.
func TestAShareOfAProcessThatIsGoneEndsByTheClockOfThoseThatWait(t *testing.T) {
	t.Parallel()
	const life = 2 * time.Second
	addr, prefix := store(t)
	client := etcdtest.Client(t, addr)
	for n := range 5 { // a machine that stands still may look too late
		p := faultpipe.NewLossy(t, addr)
		gone, waits := newCounted(t, p.Addr, prefix), newCounted(t, addr, prefix)
		key := fmt.Sprint("k", n)
		share, alone := claimed(key, locker.NoLimit), claimed(key, 0)
		share.TTL = life
		gone.mustAcquire(t, share, locker.Try{}, owns)
		stands, err := client.Get(t.Context(), prefix+"{"+key+"}/h")
		if err != nil || len(stands.Kvs) != 1 {
			t.Fatalf("%v, %v", stands, err)
		}
		restore := p.Cut(true, true)
		defer restore()
		if waits.acquires(t, alone, locker.Try{Wait: true}, queues)() != nil {
			continue
		}
		var a locker.Answer
		until(t, "the key", func() (ok bool, err error) {
			a, err = waits.Acquire(t.Context(), alone, locker.Try{Wait: true, Queued: true})
			return a.Acquired || !a.Queued, err
		})
		left, err := client.TimeToLive(t.Context(), clientv3.LeaseID(stands.Kvs[0].Lease))
		if a.Acquired && err == nil && left.TTL > 0 {
			return
		}
	}
	t.Error("etcd has ended each share before its key was free")
}

func TestAShareThatEndsDuringALookIsNotPutBack(t *testing.T) {
	t.Parallel()
	addr, prefix := store(t)
	c, other := newCounted(t, addr, prefix), newCounted(t, addr, prefix)
	share, alone := claimed("k", locker.NoLimit), claimed("k", 0)
	c.mustAcquire(t, share, locker.Try{}, owns)
	c.beforeThe(1, func() { // c knows the key
		if err := other.ForceRelease(t.Context(), "k", share.Owner); err != nil {
			t.Error(err)
		}
		other.mustAcquire(t, alone, locker.Try{}, owns)
	})
	a, err := c.Acquire(t.Context(), share, locker.Try{Held: true})
	if err != nil || a.Acquired {
		t.Errorf("%+v, %v, want another claim to own the key alone", a, err)
	}
	if a, err := other.Inspect(t.Context(), "k"); err != nil || a.Owner != alone.Owner {
		t.Errorf("%+v, %v, want the other claim to have come in between", a, err)
	}
}

// hears returns the next grants.
func (c *counted) hears(t *testing.T, n int) (all []locker.Offer) {
	t.Helper()
	late := time.After(patience)
	for len(all) < n {
		select {
		case o := <-c.granted:
			all = append(all, o)
		case <-late:
			t.Fatalf("%d claims hear of their grants, want %d", len(all), n)
		}
	}
	return all
}

// queued has claims wait for a key that owner owns.
func (c *counted) queued(t *testing.T, n int, owner *locker.Claim, limit int) (all []*locker.Claim) {
	t.Helper()
	errs := make(chan error, n)
	for range n { // at once, so that none leaves the queue before the last is there
		cl := claimed(owner.Key, limit)
		cl.Fencing = limit != locker.NoLimit
		all = append(all, cl)
		go func() { errs <- c.acquires(t, cl, locker.Try{Wait: true}, queues)() }() // ends with its one call
	}
	for range n {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func TestAReleaseLetsInAllThatMayOwnTheKeyTogether(t *testing.T) {
	t.Parallel()
	addr, prefix := store(t)
	c := newCounted(t, addr, prefix)
	const many = 30 // more than come in by one transaction
	for n := range 20 {
		owner, began := claimed(fmt.Sprint("k", n), 0), time.Now()
		c.mustAcquire(t, owner, locker.Try{}, owns)
		c.queued(t, many, owner, locker.NoLimit)
		if time.Since(began) > locker.QueueLife/2 {
			continue // some may leave the queue
		}
		if _, err := c.Release(t.Context(), owner, locker.End{}); err != nil {
			t.Fatal(err)
		}
		if s, err := c.Inspect(t.Context(), owner.Key); err != nil || s.Waiting > 0 {
			t.Errorf("%d still wait, %v, want all to come in", s.Waiting, err)
		}
		c.hears(t, many)
		return
	}
	t.Fatal("the machine is too slow")
}

func TestPermitsThatAreHandedOverTogetherHaveTokensOfTheirOwn(t *testing.T) {
	t.Parallel()
	addr, prefix := store(t)
	c := newCounted(t, addr, prefix)
	const permits = 3
	owner := claimed("k", 0)
	c.mustAcquire(t, owner, locker.Try{}, owns)
	c.queued(t, permits, owner, permits)
	if _, err := c.Release(t.Context(), owner, locker.End{}); err != nil {
		t.Fatal(err)
	}
	last := uint64(0)
	for _, o := range c.hears(t, permits) {
		if o.Token < last+locker.FenceBlock {
			t.Errorf("token %d follows %d, want a block for each permit", o.Token, last)
		}
		if last = o.Token; o.Length <= 0 || o.Length > time.Second {
			t.Errorf("an offer of %v, want a short one", o.Length)
		}
	}
	s, err := c.Inspect(t.Context(), "k")
	if err != nil || s.Remaining > time.Second {
		t.Errorf("%+v, %v, want others to see the offers end within 1 s", s, err)
	}
}

// left returns how a process that is gone has left its hold of the key k, under
// an etcd lease that outlives the TTL.
func left(t *testing.T, addr, prefix string, ttl time.Duration) (client *clientv3.Client, found *clientv3.GetResponse) {
	t.Helper()
	p := faultpipe.NewLossy(t, addr)
	gone := newCounted(t, p.Addr, prefix)
	owner := claimed("k", 0)
	owner.TTL = ttl
	gone.mustAcquire(t, owner, locker.Try{}, owns)
	t.Cleanup(p.Cut(true, true))
	client = etcdtest.Client(t, addr)
	found, err := client.Get(t.Context(), prefix+"{k}")
	if err != nil || len(found.Kvs) != 1 {
		t.Fatalf("%v, %v", found, err)
	}
	return client, found
}

func TestSeveralKeysAreFreeWhenTheTTLOfAProcessThatIsGoneEnds(t *testing.T) {
	t.Parallel()
	addr, prefix := store(t)
	client, found := left(t, addr, prefix, 2*time.Second)
	c := newCounted(t, addr, prefix)
	cs := []*locker.Claim{claimed("j", 0), claimed("k", 0)}
	until(t, "both keys", func() (bool, error) {
		_, held, err := c.AcquireAll(t.Context(), cs, false)
		return held == len(cs), err
	})
	life, err := client.TimeToLive(t.Context(), clientv3.LeaseID(found.Kvs[0].Lease))
	if err != nil || life.TTL <= 0 {
		t.Errorf("%+v, %v, want the keys before etcd ends the one that was left", life, err)
	}
}

func TestAHoldThatGoesOnDuringALookIsNotTakenAway(t *testing.T) {
	t.Parallel()
	addr, prefix := store(t)
	const ttl = 3 * time.Second
	client, found := left(t, addr, prefix, ttl)
	c := newCounted(t, addr, prefix)
	cs := []*locker.Claim{claimed("j", 0), claimed("k", 0)}
	if _, held, err := c.AcquireAll(t.Context(), cs, false); err != nil || held != 1 {
		t.Fatalf("the key %d is held, %v, want the second", held, err)
	}
	time.Sleep(ttl) // it ends by the clock of c; the server knows no virtual time
	renewed := false
	c.beforeThe(1, func() { // c knows the key
		_, err := client.Put(t.Context(), prefix+"{k}", string(found.Kvs[0].Value))
		renewed = err == nil
	})
	if _, held, err := c.AcquireAll(t.Context(), cs, false); err != nil || held != 1 || !renewed {
		t.Errorf("the key %d is held, %v, renewed %v, want the second", held, err, renewed)
	}
}

func TestARecordThatComesDuringALookIsFound(t *testing.T) {
	t.Parallel()
	addr, prefix := store(t)
	c, other := newCounted(t, addr, prefix), newCounted(t, addr, prefix)
	owner, recalls := claimed("k", 0), claimed("k", 0)
	recalls.Recall = true
	other.mustAcquire(t, owner, locker.Try{}, owns)
	end := locker.End{Record: locker.Record{Value: "kept", TTL: time.Minute}}
	c.beforeThe(2, func() { // after the look
		if _, err := other.Release(t.Context(), owner, end); err != nil {
			t.Error(err)
		}
	})
	a, err := c.Acquire(t.Context(), recalls, locker.Try{Wait: true, Held: true})
	if err != nil || a.Record != "kept" {
		t.Errorf("%+v, %v, want the record", a, err)
	}
}

// The row of a mark stays for long. Its dead owner goes all the same, also for
// who never looked before.
func TestAMarkDoesNotHoldTheKeyOfAProcessThatIsGone(t *testing.T) {
	t.Parallel()
	addr, prefix := store(t)
	p := faultpipe.NewLossy(t, addr)
	gone := newCounted(t, p.Addr, prefix)
	owner := claimed("k", 0)
	owner.TTL = 5 * time.Second // Begin comes before its end
	gone.mustAcquire(t, owner, locker.Try{}, owns)
	if _, err := gone.Begin(t.Context(), owner, locker.Record{Value: "mark", TTL: time.Hour}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Cut(true, true))
	if s, err := newCounted(t, addr, prefix).Inspect(t.Context(), "k"); err != nil || s.Owner != owner.Owner {
		t.Fatalf("%+v, %v, want the owner", s, err)
	}
	until(t, "the mark alone", func() (bool, error) {
		s, err := newCounted(t, addr, prefix).Inspect(t.Context(), "k")
		return !s.Held && s.Record.Size == len("mark"), err
	})
}
