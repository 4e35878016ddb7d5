package redislocker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/limits"
	"github.com/go-lockguard/guard/internal/redisconn"
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
// The call of guard.Once that ran the function waits for the replicas too,
// after it has kept its result or mark. A call that gets the result of another
// one does not wait for them. It may have it before they do.
//
// A failover that loses a renewal leaves the key for as long as it had before. A
// lease that began short, by a hand-over or with guard.WithLinger, is not
// trusted for longer until a second renewal has succeeded. Both may be lost
// where a replica is a third of that lease behind. Any other lease has
// two thirds of the TTL left then: a failover must take less, or its holder may
// rely on the key for some time beside another.
//
// It needs a *redis.Client or a *redis.ClusterClient. In a cluster, a key may
// be unavailable while its slot is being moved.
func WithReplicas(n int, timeout time.Duration) Option {
	return optionFunc(func(s *settings) { s.replicas, s.replicasWait = n, timeout })
}

// checkReplicas checks the numbers of WithReplicas, and refuses a client that
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
	switch s.conn.AsIs.(type) {
	case nil, *redis.Client, *redis.ClusterClient:
		return nil
	}
	return invalid("WithReplicas needs a *redis.Client or a *redis.ClusterClient, not a %T", s.conn.AsIs)
}

// ReplicasError reports that too few replicas had a key in time, and comes with
// [locker.ErrUnavailable]. The key was freed.
type ReplicasError struct {
	Got, Want int
	Within    time.Duration // Timeout, or what was left of the try's time if that was less
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

// awaitReplicas waits until enough replicas have the last write, and leaves a
// part of the try's time to free the key again. The caller completes a
// [ReplicasError].
func (l *Locker) awaitReplicas(ctx context.Context, send redisconn.SendFunc) error {
	want, timeout := l.settings.replicas, l.settings.replicasWait
	within := timeout
	if end, ok := ctx.Deadline(); ok {
		within = min(within, time.Until(end)*3/4)
	}
	within = max(within.Truncate(time.Millisecond), time.Millisecond) // 0 would wait for ever
	cmd := send(ctx, redisconn.NewCommand(ctx, "wait", want, within.Milliseconds()))[0]
	got, err := cmd.Int()
	switch {
	case err != nil:
		return l.tryError(err)
	case got < want:
		return &ReplicasError{Got: got, Want: want, Within: within, Timeout: timeout, Connected: -1}
	}
	return nil
}

// replicasIn returns how many replicas a primary has by its INFO, -1 if that
// does not say.
func replicasIn(info map[string]string) int {
	n, err := strconv.Atoi(info["connected_slaves"])
	if err != nil {
		return -1
	}
	return n
}

// confirmed sends a call for key whose answer read reads. If that succeeds, it
// waits for the replicas.
func (l *Locker) confirmed(ctx context.Context, key string, c call, read func(command) error) error {
	if l.settings.replicas == 0 {
		return read(l.runCalls(ctx, c)[0])
	}
	send, done, err := l.conn.OneConn(ctx, l.names.lock(key))
	if err != nil {
		return leaseError(err)
	}
	defer done()
	if err = read(l.over(ctx, send, c)[0]); err == nil {
		err = l.awaitReplicas(ctx, send)
	}
	if short := new(ReplicasError); errors.As(err, &short) {
		err = unclear(short)
	}
	return err
}

// replicaWaker is a waker that hears of a hand-over only when the replicas have
// it.
type replicaWaker struct {
	locker.Waker

	locker *Locker
}

// Granted waits for the replicas in the background. If they do not get the key
// in time, it passes on no length. The claim then acquires the key itself, and
// waits for them in doing so.
func (w replicaWaker) Granted(key, owner string, o locker.Offer) {
	l := w.locker
	if l.life.Enter() != nil {
		return
	}
	go func() { // ends with its time limit; Close waits for it
		defer l.life.Leave()
		ctx, cancel := context.WithTimeout(context.Background(), limits.Apart(lateLimit)) //nolint:forbidigo // no caller waits
		defer cancel()
		k := l.names.keys(key)
		touch := newCall(touchScript, 2, k.lock, k.crowd, owner)
		if l.confirmed(ctx, key, touch, readRenewed) != nil {
			o.Length = 0
		}
		w.Waker.Granted(key, owner, o)
	}()
}

// lateLimit bounds a request for which no caller waits.
const lateLimit = time.Second

// Recorded passes on that there is a record. A process whose message has none
// asks for it, which takes longer than the replicas do as a rule.
func (w replicaWaker) Recorded(key, owner, _ string) {
	w.Waker.Recorded(key, owner, "")
}
