package etcdlocker

import (
	"context"
	"maps"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
)

const (
	// rotation is how long an etcd lease serves for writing keys. The server
	// grants the lease for that much longer than the TTL of the keys.
	rotation = 3 * time.Second

	// rotationShare bounds the etcd leases of a process: for long TTLs,
	// rotation is that part of the TTL.
	rotationShare = 1000

	// longest is the longest TTL of a key. A longer one ends then. etcd grants
	// leases of at most 285 years.
	longest = 280 * 365 * 24 * time.Hour

	// sessionsMin is the number of sessions that are never searched for those
	// that have ended.
	sessionsMin = 64

	// placeNeed is how long the etcd lease of a place in a queue lives at least
	// after a look at the claim. A key that is offered to the claim stands
	// under it too, so placeNeed is as long as the longest ShortOffer.
	placeNeed = time.Second
)

// session is the etcd lease under which this process writes. etcd deletes what
// was written some seconds after the process has died.
//
// The one of places in queues is renewed while it is asked for. The one of keys
// is not, but another is granted when too little of it is left. A key thus goes
// soon after its TTL, although the process still writes others.
//
// The client's own KeepAlive does not tell when it has sent a request. Law 1
// counts from there.
type session struct {
	all     *sessions
	seconds int64 // to ask for
	renewed bool

	turn chan struct{} // holds one: the goroutine that grants or renews the lease

	mu    sync.Mutex // guards what follows; never held across I/O
	id    clientv3.LeaseID
	life  time.Duration // as the server granted it
	sent  time.Time     // when the last answered grant or renewal was sent
	used  time.Time     // when the session was last asked for
	keeps bool          // keep runs
}

// ended reports whether the lease has ended, or there was none yet. Calls that
// have such a session may go on with it, although others get a new one.
func (s *session) ended(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.sent.Add(s.life).After(now)
}

func (s *session) current() clientv3.LeaseID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id
}

// good returns the lease if it lives for need from now on.
func (s *session) good(need time.Duration) (clientv3.LeaseID, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used = time.Now()
	return s.id, s.id != 0 && s.sent.Add(s.life).After(s.used.Add(need))
}

// lease returns a lease that lives for need from now on.
func (s *session) lease(ctx context.Context, need time.Duration) (clientv3.LeaseID, error) {
	if id, ok := s.good(need); ok {
		return id, nil
	}
	if err := s.enter(ctx); err != nil {
		return 0, err
	}
	defer s.leave()
	if id, ok := s.good(need); ok {
		return id, nil
	}
	return s.refresh(ctx)
}

func (s *session) enter(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *session) leave() { <-s.turn }

// refresh renews the lease, or gets a new one. The caller has the turn.
func (s *session) refresh(ctx context.Context) (clientv3.LeaseID, error) {
	c := s.all.servers.client()
	sent := time.Now()
	if id := s.current(); s.renewed && id != 0 {
		life, err := keepAlive(ctx, c, id)
		if err == nil {
			s.set(id, life, sent)
			return id, nil
		}
		if !noLease(err) {
			s.all.servers.doubt(c, err, sent)
			return 0, err
		}
		s.lost(id)
		sent = time.Now()
	}
	r, err := c.Grant(ctx, s.seconds)
	if err != nil {
		s.all.servers.doubt(c, err, sent)
		return 0, err
	}
	s.set(r.ID, time.Duration(r.TTL)*time.Second, sent)
	return r.ID, nil
}

// set notes an answer. The first of a session that is renewed starts keep.
func (s *session) set(id clientv3.LeaseID, life time.Duration, sent time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.id, s.life, s.sent = id, life, sent
	if s.renewed && !s.keeps {
		s.keeps = true
		every := (life - placeNeed) / 4
		s.all.life.Serve(func() { s.keep(every) })
	}
}

// lost forgets a lease that has ended.
func (s *session) lost(id clientv3.LeaseID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.id == id {
		s.id = 0
	}
}

// lives renews the lease, and reports whether it was still there.
func (s *session) lives(ctx context.Context) (bool, error) {
	if err := s.enter(ctx); err != nil {
		return false, err
	}
	defer s.leave()
	was := s.current()
	id, err := s.refresh(ctx)
	return err == nil && id == was, err
}

// keep renews the lease until the locker is closed, or nobody has asked for the
// session for so long that nothing depends on it.
func (s *session) keep(every time.Duration) {
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-s.all.life.Context().Done():
			return
		case <-t.C:
		}
		if s.idle() {
			return
		}
		ctx, cancel := context.WithTimeout(s.all.life.Context(), max(every, placeNeed))
		if s.enter(ctx) == nil {
			_, _ = s.refresh(ctx)
			s.leave()
		}
		cancel()
	}
}

// idle reports whether keep may end. After that set starts it again.
func (s *session) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.used) > s.life {
		s.keeps = false
	}
	return !s.keeps
}

// sessions are the etcd leases of a process.
type sessions struct {
	life    *lockerkit.Life
	servers *servers
	places  *session // of this process in queues, and for offers

	mu      sync.Mutex         // guards what follows; never held across I/O or a callback
	keys    map[int64]*session // for keys, by the seconds that they live
	sweepAt int                // the number of keys at which those that have ended are forgotten
}

// newSessions returns the sessions of a process. The life of that of places is
// the shortest that etcd grants by default.
func newSessions(life *lockerkit.Life, etcd *servers) *sessions {
	ss := &sessions{life: life, servers: etcd, keys: map[int64]*session{}}
	ss.places = newSession(ss, locker.QueueLife)
	ss.places.renewed = true
	return ss
}

func newSession(ss *sessions, life time.Duration) *session {
	seconds := int64((life + time.Second - 1) / time.Second)
	return &session{all: ss, seconds: seconds, turn: make(chan struct{}, 1)}
}

// keyLease returns an etcd lease that outlives ttl from now on. TTLs that need
// equal seconds share one.
func (ss *sessions) keyLease(ctx context.Context, ttl time.Duration) (clientv3.LeaseID, error) {
	return ss.sessionFor(ttl).lease(ctx, min(ttl, longest))
}

func (ss *sessions) sessionFor(ttl time.Duration) *session {
	ttl = min(ttl, longest)
	s := newSession(ss, ttl+max(rotation, ttl/rotationShare))
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if known := ss.keys[s.seconds]; known != nil {
		return known
	}
	if len(ss.keys) >= ss.sweepAt {
		now := time.Now()
		maps.DeleteFunc(ss.keys, func(_ int64, s *session) bool { return s.ended(now) })
		ss.sweepAt = max(sessionsMin, 2*len(ss.keys))
	}
	ss.keys[s.seconds] = s
	return s
}

// placeLease returns the etcd lease of this process's places in queues.
func (ss *sessions) placeLease(ctx context.Context) (clientv3.LeaseID, error) {
	return ss.places.lease(ctx, placeNeed)
}

// keepAlive renews a lease by one request. The client's KeepAliveOnce would
// repeat it without a pause while the server cannot be reached.
func keepAlive(ctx context.Context, c *clientv3.Client, id clientv3.LeaseID) (life time.Duration, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the stream
	stream, err := etcdserverpb.NewLeaseClient(c.ActiveConnection()).LeaseKeepAlive(ctx)
	if err != nil {
		return 0, rpctypes.Error(err)
	}
	if err := stream.Send(&etcdserverpb.LeaseKeepAliveRequest{ID: int64(id)}); err != nil {
		return 0, rpctypes.Error(err)
	}
	r, err := stream.Recv()
	switch {
	case err != nil:
		return 0, rpctypes.Error(err)
	case r.TTL <= 0:
		return 0, rpctypes.ErrLeaseNotFound
	}
	return time.Duration(r.TTL) * time.Second, nil
}

const (
	renewBatch   = 50 // claims in one request
	renewFlights = 4  // requests of one Renew at a time
)

// renewal is one request of a Renew. Its claims have different keys and one
// session, so that a session that has ended fails no others.
type renewal struct {
	l       *Locker
	session *session
	claims  []*locker.Claim
	keys    map[string]bool
	answer  []func(err error)
}

// renewals makes the requests for the claims whose leases go on, and answers
// the others.
func renewals(l *Locker, cs []*locker.Claim, answered func(i int, err error)) (all []*renewal) {
	filling := map[*session]*renewal{}
	for i, c := range cs {
		if l.book.Page(c).Over() {
			answered(i, errNotOwner)
			continue
		}
		s := l.sessionFor(c.TTL)
		b := filling[s]
		own := l.ownKey(c.Key, c.Owner, c.Limit)
		if b == nil || len(b.claims) == renewBatch || b.keys[own] {
			b = &renewal{l: l, session: s, keys: map[string]bool{}}
			filling[s], all = b, append(all, b)
		}
		b.claims, b.keys[own] = append(b.claims, c), true
		b.answer = append(b.answer, func(err error) { answered(i, err) })
	}
	return all
}

// run sends the request, and again if the session had to be made anew.
func (b *renewal) run(ctx context.Context) {
	var r *clientv3.TxnResponse
	var err error
	for range 3 {
		if r, err = b.send(ctx); !noLease(err) {
			break
		}
	}
	for i, c := range b.claims {
		switch {
		case err != nil:
			b.answer[i](b.l.unclear(err))
		case !r.Responses[i].GetResponseTxn().Succeeded, !b.l.book.Page(c).Own(c.TTL):
			b.answer[i](errNotOwner)
		default:
			b.answer[i](nil)
		}
	}
}

func (b *renewal) send(ctx context.Context) (*clientv3.TxnResponse, error) {
	need := time.Duration(0)
	for _, c := range b.claims {
		need = max(need, c.TTL)
	}
	lease, err := b.session.lease(ctx, need)
	if err != nil {
		return nil, err
	}
	ops := make([]clientv3.Op, len(b.claims))
	for i, c := range b.claims {
		key := b.l.ownKey(c.Key, c.Owner, c.Limit)
		put := clientv3.OpPut(key, lockValue(c.Owner, recordOf(c, c.TTL)), clientv3.WithLease(lease))
		ops[i] = clientv3.OpTxn(b.l.isOwner(c.Key, c.Owner, c.Limit), []clientv3.Op{put}, nil)
	}
	r, err := b.l.txn(ctx, nil, ops, nil)
	if noLease(err) {
		b.session.lost(lease)
	}
	return r, err
}
