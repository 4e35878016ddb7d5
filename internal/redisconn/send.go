package redisconn

import (
	"cmp"
	"context"
	"errors"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Command is a request that go-redis must not repeat by itself, as a cluster
// client does. A release that is done twice answers "not held".
type Command struct{ *redis.Cmd }

// NewCommand returns a command with these arguments, the verb first.
func NewCommand(ctx context.Context, args ...any) Command { return Command{redis.NewCmd(ctx, args...)} }

// NoRetry is called by go-redis.
func (Command) NoRetry() bool { return true }

// Answerable is a command that holds its answer.
type Answerable interface {
	redis.Cmder
	Val() any
}

// SendFunc is a function that sends commands, see [Conns.Send].
type SendFunc func(ctx context.Context, cmds ...Command) []Command

// ErrNoAnswer is the error of a command whose answer cannot be used.
var ErrNoAnswer = errors.New("no usable answer")

// Send sends cmds as one request. It returns them when each holds its answer or
// error. The caller must not use cmds itself any more.
//
// Up to directRequests requests go their own way at once. Further requests
// share pipelines. In a cluster all requests go their own way. A pipeline is
// answered only when its slowest node has answered, and a node that hangs must
// not stop the keys of others.
func (c *Conns) Send(ctx context.Context, cmds ...Command) []Command {
	defer c.batcher.inFlight.Add(-1)
	return c.send(ctx, cmds, c.batcher.inFlight.Add(1))
}

// SendOne is Send for one command, which goes its own way without a slice.
func (c *Conns) SendOne(ctx context.Context, cmd Command) Command {
	defer c.batcher.inFlight.Add(-1)
	inFlight := c.batcher.inFlight.Add(1)
	if inFlight <= directRequests && c.cluster == nil {
		sent := time.Now()
		_ = c.client.Process(ctx, cmd) // cmd has the error
		c.measure(sent, cmd)
		return cmd
	}
	return c.send(ctx, []Command{cmd}, inFlight)[0]
}

// send is Send for one of so many requests in flight.
func (c *Conns) send(ctx context.Context, cmds []Command, inFlight int64) []Command {
	if inFlight <= directRequests || c.cluster != nil {
		sent := time.Now()
		c.exchange(ctx, cmds)
		if inFlight <= directRequests && len(cmds) == 1 { // more take the server longer
			c.measure(sent, cmds[0])
		}
		return cmds
	}
	err := c.batcher.send(ctx, cmds)
	if err == nil {
		return cmds
	}
	failed := make([]Command, len(cmds)) // the batch may still write to cmds
	for i := range failed {
		failed[i] = NewCommand(ctx)
		failed[i].SetErr(err)
	}
	return failed
}

// measure notes how long a command took that was sent at the given time, if it
// has an answer. Long ones, as with a record, take longer than a round trip.
func (c *Conns) measure(sent time.Time, cmd Command) {
	if err := cmd.Err(); (err == nil || errors.Is(err, redis.Nil)) && size(cmd.Args())+size(cmd.Val()) < oneTrip {
		c.Trip.note(time.Since(sent))
	}
}

// oneTrip is how many bytes travel in one round trip at least: the first window
// of a TCP connection.
const oneTrip = 14_000

// size returns about how many bytes the arguments or the answer of a command
// have.
func size(v any) (n int) {
	switch v := v.(type) {
	case string:
		return len(v)
	case []byte:
		return len(v)
	case []any:
		for _, part := range v {
			n += size(part)
		}
	}
	return n
}

// SendRenewals sends cmds to node as one request. It does not join the batches
// of others, because it is a batch itself. After several of them in a row
// without an answer, no connection to the node is used again that has carried
// nothing meanwhile.
func (c *Conns) SendRenewals(ctx context.Context, node string, cmds []Answerable) {
	sent := time.Now()
	c.reload(ctx, exchange(ctx, c.client, cmds))
	first := cmds[0].Err()
	c.logins.liveness.of(node, newLiveness).renewed(sent, first != nil && unanswered(first))
}

// Publish sends a message to a channel.
func (c *Conns) Publish(ctx context.Context, channel, message string) error {
	return c.client.Publish(ctx, channel, message).Err()
}

func (c *Conns) exchange(ctx context.Context, cmds []Command) {
	c.reload(ctx, exchange(ctx, c.client, cmds))
}

// reload makes a cluster client look at the cluster if an exchange ended as if
// the cluster had changed. Without it the client would learn of a failover much
// later, and never from an exchange with one node, whose answers it does not
// follow. The reload goes on in the background, and not too often.
func (c *Conns) reload(ctx context.Context, err error) {
	if c.cluster != nil && (moved(err) || unreachable(err) || errors.Is(err, context.DeadlineExceeded)) {
		c.cluster.ReloadState(ctx)
	}
}

// carrier is a client, or one connection of it.
type carrier interface {
	Process(ctx context.Context, cmd redis.Cmder) error
	Pipeline() redis.Pipeliner
}

// exchange sends cmds in a pipeline and returns its error. A cluster client
// splits the pipeline by node. It gets even one command as a pipeline, because
// it looks up single ones in the server's list of commands first.
func exchange[C Answerable](ctx context.Context, client carrier, cmds []C) error {
	if _, cluster := client.(*redis.ClusterClient); len(cmds) == 1 && !cluster {
		return client.Process(ctx, cmds[0])
	}
	pipe := client.Pipeline()
	for _, c := range cmds {
		_ = pipe.Process(ctx, c) // only queues
	}
	_, err := pipe.Exec(ctx)
	for _, c := range cmds {
		if c.Err() == nil && c.Val() == nil { // go-redis leaves them so if the login of a new connection was refused
			c.SetErr(cmp.Or(err, ErrNoAnswer))
		}
	}
	return err
}

// moved reports whether a node of a cluster answered that another node has the
// key.
func moved(err error) bool {
	var answer redis.Error
	return errors.As(err, &answer) &&
		(strings.HasPrefix(answer.Error(), "MOVED ") || strings.HasPrefix(answer.Error(), "ASK "))
}

func unreachable(err error) bool {
	var op *net.OpError
	return errors.As(err, &op)
}

// unanswered reports whether a request may have been sent and then ran into its
// time limit.
func unanswered(err error) bool {
	var timeout net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}
