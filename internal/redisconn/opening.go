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

// openings lets tries wait for a connection before they send anything. A try
// that gets its connection late would run into its limit before the answer
// comes. It would take the connection with it. openings is safe for concurrent
// use.
type openings struct {
	mu    sync.Mutex           // guards nodes and what they point to; never held across I/O
	nodes map[string]*opening  // by address; nodes with a waiting try or a dial
	mute  map[string]time.Time // by address; when the last dial ended, if it got no answer
	dials sync.WaitGroup       // under way; none begins once no call does
}

// opening holds the dials to one node. Invariant: dialing <= maxOpening.
type opening struct {
	waiting int // tries
	dialing int
	next    *arrival
}

// arrival is the next dial to end.
type arrival struct {
	done chan struct{} // closed when the dial ends
	took time.Duration // the dial; set before done is closed
	err  error         // of the dial; set before done is closed
}

// maxOpening is the max number of connections to a node that are opened at a
// time for waiting tries.
const maxOpening = poolSize / 2

// ErrConnecting means that a request ended before there was a connection for
// it. It Is [ErrMute] if the connection before it got no answer.
var ErrConnecting = errors.New("no connection to the server yet: it is being opened")

var errStillMute = fmt.Errorf("%w: %w", ErrMute, ErrConnecting)

// muteFor is how long a dial without an answer says something about the next one.
const muteFor = 3 * dialLimit

// Near reports whether a try need not wait for Ready, because the server is
// near or the client is the caller's.
func (c *Conns) Near() bool { return !c.own || c.Trip.short() }

// Ready waits until there is a connection for name. If too little of the try is
// left by then, it returns an error. The next try will find the connection,
// because the dial goes on in the background.
func (c *Conns) Ready(ctx context.Context, name string) error {
	client, err := c.nodeClient(ctx, name)
	if err != nil {
		return err
	}
	var took time.Duration
	for lacking(client) {
		if took, err = c.openings.wait(ctx, client); err != nil {
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
func (o *openings) wait(ctx context.Context, client *redis.Client) (took time.Duration, err error) {
	addr := client.Options().Addr
	a := o.join(addr, func() {
		start := time.Now()
		o.dials.Go(func() {
			err := open(client)
			o.ended(addr, time.Since(start), err)
		})
	})
	defer o.leave(addr)
	select {
	case <-a.done:
		return a.took, a.err
	case <-ctx.Done():
		return 0, o.connecting(addr)
	}
}

// connecting is the error of a try that had no connection in time.
func (o *openings) connecting(addr string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if at, ok := o.mute[addr]; ok && time.Since(at) < muteFor {
		return errStillMute
	}
	return ErrConnecting
}

// open lets go-redis dial a connection and keep it. It ends with the dial.
func open(client *redis.Client) error {
	ctx, cancel := context.WithTimeout(context.Background(), limits.Apart(2*dialLimit)) //nolint:forbidigo // outlives its try
	defer cancel()
	return client.Process(ctx, redis.NewMapStringInterfaceCmd(ctx, "hello", 2)) // answered by the connection itself
}

func (o *openings) join(addr string, dial func()) *arrival {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := o.nodes[addr]
	if n == nil {
		n = &opening{next: &arrival{done: make(chan struct{})}}
		if o.nodes == nil {
			o.nodes = make(map[string]*opening)
		}
		o.nodes[addr] = n
	}
	n.waiting++
	if n.dialing < min(n.waiting, maxOpening) {
		n.dialing++
		dial()
	}
	return n.next
}

func (o *openings) leave(addr string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := o.nodes[addr]
	n.waiting--
	o.drop(addr, n)
}

func (o *openings) ended(addr string, took time.Duration, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.mute, addr)
	if errors.Is(err, ErrMute) {
		if o.mute == nil {
			o.mute = make(map[string]time.Time)
		}
		o.mute[addr] = time.Now()
	}
	n := o.nodes[addr]
	n.dialing--
	n.next.took, n.next.err = took, err
	close(n.next.done)
	n.next = &arrival{done: make(chan struct{})}
	o.drop(addr, n)
}

// drop forgets a node without waiting tries and dials. o.mu is held.
func (o *openings) drop(addr string, n *opening) {
	if n.waiting == 0 && n.dialing == 0 {
		delete(o.nodes, addr)
	}
}
