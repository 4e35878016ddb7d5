package redisconn

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/limits"
)

// An opening lets tries wait for a connection to a server before they send
// anything. A try that gets its connection late would run into its limit before
// the answer comes. It would take the connection with it. An opening is safe
// for concurrent use.
type opening struct {
	mu      sync.Mutex // guards the fields below; never held across I/O
	waiting int        // tries
	dialing int        // at most maxOpening
	next    *arrival
	silent  time.Time // when the last dial ended, if it got no answer
}

// arrival is the next dial to end.
type arrival struct {
	done chan struct{} // closed when the dial ends
	took time.Duration // the dial; set before done is closed
	err  error         // of the dial; set before done is closed
}

func newOpening() *opening { return &opening{next: newArrival()} }

func newArrival() *arrival { return &arrival{done: make(chan struct{})} }

// maxOpening is the max number of connections to a node that are opened at a
// time for waiting tries.
const maxOpening = poolSize / 2

// ErrConnecting means that a request ended before there was a connection for
// it. It Is [ErrSilentDial] if the connection before it got no answer.
var ErrConnecting = errors.New("no connection to the server yet: it is being opened")

var errStillSilent = fmt.Errorf("%w: %w", ErrSilentDial, ErrConnecting)

// silentFor is how long a dial without an answer says something about the next.
const silentFor = 3 * dialLimit

// Near reports whether a try need not wait for Ready, because the server is
// near or the client is the caller's. Near is where even the few round trips of
// a new connection cost no try.
func (c *Conns) Near() bool { return !c.own || c.Trip.within(50*time.Millisecond) }

// Ready waits until there is a connection for name. If too little of the try is
// left by then, it returns an error. The next try will find the connection,
// because the dial goes on in the background.
func (c *Conns) Ready(ctx context.Context, name string) error {
	client, err := c.nodeClient(ctx, name)
	if err != nil {
		return err
	}
	o := c.openings.of(client.Options().Addr, newOpening)
	var took time.Duration
	for lacking(client) {
		if took, err = o.wait(ctx, client, &c.logins.dials); err != nil {
			return err
		}
	}
	// A dial may be short although a round trip is long, if the connection ends
	// near by, as at a tunnel. The login has gone the whole way. A try that had
	// its connection from the start has all its time, whatever was measured.
	trip := max(took/dialTrips, time.Duration(c.Trip.mean.Load()))
	if end, ok := ctx.Deadline(); ok && took > 0 && time.Until(end) < trip {
		return ErrConnecting
	}
	return nil
}

// dialTrips is the min number of round trips of a dial: the connection and its
// handshake.
const dialTrips = 2

// lacking reports whether client has no connection to spare and may have more.
func lacking(client *redis.Client) bool {
	s := client.PoolStats()
	return s.IdleConns == 0 && s.TotalConns < maxOpening
}

// wait waits for the next dial to end, and returns how long that dial took. It
// begins one if fewer dials than waiting tries are under way.
func (o *opening) wait(ctx context.Context, client *redis.Client, dials *sync.WaitGroup) (time.Duration, error) {
	a := o.join(client, dials)
	defer o.leave()
	select {
	case <-a.done:
		return a.took, a.err
	case <-ctx.Done():
		return 0, o.connecting()
	}
}

// connecting is the error of a try that had no connection in time.
func (o *opening) connecting() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if time.Since(o.silent) < silentFor {
		return errStillSilent
	}
	return ErrConnecting
}

// open lets go-redis dial a connection and keep it. It ends with the dial.
func open(client *redis.Client) error {
	ctx, cancel := context.WithTimeout(context.Background(), limits.Apart(2*dialLimit)) //nolint:forbidigo // outlives its try
	defer cancel()
	return client.Process(ctx, redis.NewMapStringInterfaceCmd(ctx, "hello", 2)) // answered by the connection itself
}

func (o *opening) join(client *redis.Client, dials *sync.WaitGroup) *arrival {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waiting++
	if o.dialing < min(o.waiting, maxOpening) {
		o.dialing++
		dials.Go(func() { // ends with the dial
			start := time.Now()
			o.ended(start, open(client))
		})
	}
	return o.next
}

func (o *opening) leave() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waiting--
}

func (o *opening) ended(start time.Time, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.dialing--
	o.silent = time.Time{}
	if errors.Is(err, ErrSilentDial) {
		o.silent = time.Now()
	}
	o.next.took, o.next.err = time.Since(start), err
	close(o.next.done)
	o.next = newArrival()
}
