package redislocker

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/locker"
)

// WithReplicas makes every acquire wait until at least n replicas have the key.
// It uses WAIT on the same connection. The default is 0, for none. If fewer
// replicas have the key within timeout, the key is freed and the try fails as
// unavailable, with a [ReplicasError]. The try's own limit applies if it is
// shorter. The time of the wait is taken from the lease's time.
//
// It costs every acquire a round trip. When a key is handed over, the next
// process is told only once the replicas have it. At most 12 acquires wait at a
// time for each primary, and others wait for them. So holders can renew their
// leases while a replica hangs.
//
// It narrows the window in which a failover loses a key, and does not close it.
// WAIT does not make Redis a strongly consistent store. A replica without the
// key may still be promoted. A renewal or a release waits for no replica. Data
// that two holders would damage needs fencing tokens all the same.
//
// A lost renewal costs only the time that it added. The next one, a third of
// the TTL later, finds the key still there.
//
// It needs a *redis.Client or a *redis.ClusterClient. In a cluster, a key may
// be unavailable while its slot is being moved.
func WithReplicas(n int, timeout time.Duration) Option {
	return optionFunc(func(s *settings) { s.replicas, s.replicasWait = n, timeout })
}

// checkReplicas checks the numbers of WithReplicas. It refuses a client that
// has no connections of its own.
func (s *settings) checkReplicas() error {
	switch {
	case s.replicas == 0:
		return nil
	case s.replicas < 0:
		return invalid("the replicas to wait for are %d", s.replicas)
	case s.replicasWait < time.Millisecond:
		return invalid("the wait for replicas is %v: less than a millisecond is no limit to Redis", s.replicasWait)
	}
	switch s.asIs.(type) {
	case nil, *redis.Client, *redis.ClusterClient:
		return nil
	}
	return invalid("WithReplicas needs a *redis.Client or a *redis.ClusterClient, not a %T", s.asIs)
}

// ReplicasError reports that too few replicas had a key in time. It comes with
// [locker.ErrUnavailable]. The key was freed.
type ReplicasError struct {
	Got, Want int
	Within    time.Duration // Timeout, or the rest of the try's time if that was less
	Timeout   time.Duration // of WithReplicas
	Connected int           // how many replicas the primary has; -1 if it does not say
}

func (e *ReplicasError) Error() string {
	var text strings.Builder
	_, _ = fmt.Fprintf(&text, "%d of %d replicas confirmed the key within %v", e.Got, e.Want, e.Within)
	if e.Within < e.Timeout {
		_, _ = fmt.Fprintf(&text, " (the try's limit; WithReplicas has %v)", e.Timeout)
	}
	switch {
	case e.Connected == 1:
		text.WriteString("; 1 is connected")
	case e.Connected >= 0:
		_, _ = fmt.Fprintf(&text, "; %d are connected", e.Connected)
	}
	return text.String()
}

//go:embed touch.lua
var touchSource string

var touchScript = newScript(touchSource)

// obtainReplicated acquires c and waits for the replicas.
func (l *Locker) obtainReplicated(ctx context.Context, c *locker.Claim) (answer locker.Answer, err error) {
	send, done, err := l.oneConn(ctx, c.Key)
	if err != nil {
		return answer, l.tryError(err)
	}
	defer done()
	answer, err = l.obtainBy(ctx, send, c)
	if err != nil {
		l.astray(ctx, err)
		return answer, err
	}
	if !answer.Acquired {
		return answer, nil
	}
	if err := l.awaitReplicas(ctx, send); err != nil {
		// Free the key now, not in the background: the next try may have the
		// same owner id. A release without an answer may arrive after that try,
		// so there must be no such try. Queued makes the guard give the claim
		// up.
		st := l.state(c)
		answers := run(ctx, send, l.releaseCall(c.Key, st.keys, st.owner, "", ""), infoReplication)
		if short := new(ReplicasError); errors.As(err, &short) {
			short.Connected = connected(answers[1])
			err = unclear(short)
		}
		return locker.Answer{Queued: answers[0].Err() != nil}, err
	}
	return answer, nil
}

// oneConn returns a way over one connection to the primary of key, until done.
// WAIT is about the writes of its own connection. oneConn waits while too many
// connections are in use, so that the pool has others left for renewals.
func (l *Locker) oneConn(ctx context.Context, key string) (send way, done func(), err error) {
	client, _ := l.client.(*redis.Client)
	if l.cluster != nil {
		if client, err = l.cluster.MasterForKey(ctx, l.lockName(key)); err != nil {
			return nil, nil, err
		}
	}
	place := l.waits.of(client.Options().Addr)
	select {
	case place <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, unclear(errReplicasBusy)
	}
	conn := client.Conn()
	return func(ctx context.Context, cmds ...command) []command {
		_ = exchange(ctx, conn, cmds) // each command has its own error
		return cmds
	}, func() { _ = conn.Close(); <-place }, nil // back to the pool
}

// waitsMost is the max number of connections to a server that use WAIT at a
// time.
const waitsMost = poolSize * 3 / 4

var errReplicasBusy = errors.New("too many others wait for replicas: see that those are up and keep pace, or " +
	"change WithReplicas")

// waits are the places of the acquires that wait for replicas, for each server.
type waits struct {
	mu     sync.Mutex // guards places
	places map[string]chan struct{}
}

// of returns the places at a server. A send takes a place and a receive frees
// it.
func (w *waits) of(server string) chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	place := w.places[server]
	if place == nil {
		place = make(chan struct{}, waitsMost)
		if w.places == nil {
			w.places = make(map[string]chan struct{})
		}
		w.places[server] = place
	}
	return place
}

// awaitReplicas waits until enough replicas have the last write. It leaves a
// part of the try's time to free the key again. The caller completes a
// [ReplicasError].
func (l *Locker) awaitReplicas(ctx context.Context, send way) error {
	want, within := l.settings.replicas, l.settings.replicasWait
	if end, ok := ctx.Deadline(); ok {
		within = min(within, time.Until(end)*3/4)
	}
	within = max(within.Truncate(time.Millisecond), time.Millisecond) // 0 would wait for ever
	cmd := send(ctx, command{redis.NewCmd(ctx, "wait", want, within.Milliseconds())})[0]
	got, err := cmd.Int()
	switch {
	case err != nil:
		return l.tryError(err)
	case got < want:
		return &ReplicasError{Got: got, Want: want, Within: within, Timeout: l.settings.replicasWait, Connected: -1}
	}
	return nil
}

var infoReplication = call{line: []any{"info", "replication"}}

// connected reads how many replicas a primary has, -1 if it does not say.
func connected(info command) int {
	text, _ := info.Text()
	_, rest, _ := strings.Cut(text, "connected_slaves:")
	count, _, _ := strings.Cut(rest, "\r\n")
	n, err := strconv.Atoi(count)
	if err != nil {
		return -1
	}
	return n
}

// astray makes a cluster client learn where keys live, if err says that it was
// wrong.
func (l *Locker) astray(ctx context.Context, err error) {
	if c := code(err); l.cluster != nil && (c == "MOVED" || c == "ASK" || unreachable(err)) {
		l.cluster.ReloadState(ctx)
	}
}

// confirming is a waker that hears of a hand-over only when the replicas have
// it.
type confirming struct {
	locker.Waker

	locker *Locker
}

// Granted waits for the replicas in the background. It gives the key back if
// they do not get it, or if nobody here knows the owner (law 3).
func (w confirming) Granted(key, owner string, o locker.Offer) bool {
	l := w.locker
	if l.gate.Enter() != nil {
		return false
	}
	go func() { // ends with its time limit; Close waits for it
		defer l.gate.Leave()
		if !l.confirm(key, owner) || !w.Waker.Granted(key, owner, o) {
			l.giveBack(key, owner)
		}
	}()
	return true
}

// confirm reports whether the replicas have a key that was handed over to
// owner.
func (l *Locker) confirm(key, owner string) bool {
	ctx, cancel := context.WithTimeout(l.janitor.ctx, cleanLimit) // ends when Close does or gives up
	defer cancel()
	send, done, err := l.oneConn(ctx, key)
	if err != nil {
		return false
	}
	defer done()
	answer := run(ctx, send, newCall(touchScript, 1, l.keys(key).lock, owner))[0]
	l.astray(ctx, answer.Err())
	n, err := answer.Int()
	return err == nil && n == 1 && l.awaitReplicas(ctx, send) == nil
}

// Revoked passes on that an operator has released a key.
func (w confirming) Revoked(key, owner string) {
	if r, ok := w.Waker.(locker.Revoker); ok {
		r.Revoked(key, owner)
	}
}
