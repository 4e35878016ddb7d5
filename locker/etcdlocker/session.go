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

	// sweepEvery is after how many new sessions those that have ended are
	// forgotten.
	sweepEvery = 64

	// placeNeed is how long the etcd lease of a place in a queue lives at least
	// after it was asked for, and placeEvery the pause between renewals.
	placeNeed  = time.Second
	placeEvery = (locker.QueueLife - placeNeed) / 4
)

// session is the etcd lease under which this process writes. etcd deletes what
// was written some seconds after the process has died.
//
// The one of places in queues is renewed by Work while it is asked for. The one
// of keys is not, but another is granted when too little of it is left. A key
// thus goes soon after its TTL, although the process still writes others.
//
// The client's own KeepAlive does not tell when it has sent a request. Law 1
// counts from there.
type session struct {
	servers *servers
	seconds int64          // to ask for
	bell    lockerkit.Bell // wakes Work; nil: it is never renewed

	turn chan struct{} // holds one: the goroutine that grants or renews the lease

	mu   sync.Mutex // guards what follows; never held across I/O
	id   clientv3.LeaseID
	life time.Duration // as the server granted it
	sent time.Time     // when the last answered grant or renewal was sent
	used time.Time     // when the session was last asked for
}

// good returns the lease if it lives for need from now on.
func (s *session) good(need time.Duration) (clientv3.LeaseID, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id, s.id != 0 && s.sent.Add(s.life).After(time.Now().Add(need))
}

// lease returns a lease that lives for need from now on.
func (s *session) lease(ctx context.Context, need time.Duration) (clientv3.LeaseID, error) {
	s.mu.Lock()
	s.used = time.Now()
	s.mu.Unlock()
	s.bell.Ring()
	return s.atLeast(ctx, need)
}

func (s *session) atLeast(ctx context.Context, need time.Duration) (clientv3.LeaseID, error) {
	if id, ok := s.good(need); ok {
		return id, nil
	}
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if id, ok := s.good(need); ok {
		return id, nil
	}
	c, sent := s.servers.client(), time.Now()
	id, life, err := s.refresh(ctx, c)
	if err != nil {
		s.servers.doubt(c, err, sent)
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.id, s.life, s.sent = id, life, sent
	return id, nil
}

// refresh renews the lease, or gets a new one.
func (s *session) refresh(ctx context.Context, c *clientv3.Client) (clientv3.LeaseID, time.Duration, error) {
	s.mu.Lock()
	id := s.id
	s.mu.Unlock()
	if s.bell != nil && id != 0 {
		if life, err := keepAlive(ctx, c, id); !noLease(err) {
			return id, life, err
		}
	}
	r, err := c.Grant(ctx, s.seconds)
	if err != nil {
		return 0, 0, err
	}
	return r.ID, time.Duration(r.TTL) * time.Second, nil
}

// lost forgets a lease that has ended.
func (s *session) lost(id clientv3.LeaseID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.id == id {
		s.id = 0
	}
}

// sessions are the etcd leases of a process.
type sessions struct {
	servers *servers
	places  *session // of this process in queues, and of its pulse

	mu   sync.Mutex         // guards keys; never held across I/O or a callback
	keys map[int64]*session // for keys, by the seconds that they live
}

// newSessions returns the sessions of a process. The life of that of places is
// the shortest that etcd grants by default.
func newSessions(etcd *servers) *sessions {
	ss := &sessions{servers: etcd, keys: map[int64]*session{}, places: newSession(etcd, locker.QueueLife)}
	ss.places.bell = make(lockerkit.Bell, 1)
	return ss
}

func newSession(etcd *servers, life time.Duration) *session {
	seconds := int64((life + time.Second - 1) / time.Second)
	return &session{servers: etcd, seconds: seconds, turn: make(chan struct{}, 1)}
}

// sessionFor returns the session under which a key outlives ttl. TTLs that need
// equal seconds share one.
func (ss *sessions) sessionFor(ttl time.Duration) *session {
	ttl = min(ttl, longest)
	s := newSession(ss.servers, ttl+max(rotation, ttl/rotationShare))
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if known := ss.keys[s.seconds]; known != nil {
		return known
	}
	if len(ss.keys)%sweepEvery == 0 {
		maps.DeleteFunc(ss.keys, func(_ int64, s *session) bool {
			_, lives := s.good(0)
			return !lives
		})
	}
	ss.keys[s.seconds] = s
	return s
}

// Work renews the lease of places until ctx ends, while it is asked for.
func (ss *sessions) Work(ctx context.Context) {
	s := ss.places
	pause := func(time.Duration) time.Duration { return placeEvery }
	s.bell.Look(ctx.Done(), pause, func() bool {
		s.mu.Lock()
		life, idle := s.life, time.Since(s.used) > s.life
		s.mu.Unlock()
		if idle { // nothing depends on it any more
			return false
		}
		ctx, cancel := context.WithTimeout(ctx, placeNeed)
		defer cancel()
		_, _ = s.atLeast(ctx, life)
		return true
	})
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
