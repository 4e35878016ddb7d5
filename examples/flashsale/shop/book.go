package shop

import (
	"context"
	_ "embed"
	"errors"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/fence"
	"github.com/go-lockguard/guard/fence/redisfence"
)

// OrderBook is where the stock and the orders of a run are. Safe for concurrent
// use.
type OrderBook interface {
	// Read returns the stock. A token above 0 is shown to the fence, as in
	// Place: what was read with it can be overwritten by nobody with a lower
	// one.
	Read(ctx context.Context, sku string, token uint64) (left int, err error)

	// Place writes an order and the stock that is left, together. With a token
	// above 0 the error Is fence.ErrLateWrite if a higher one was seen, and
	// nothing is written.
	Place(ctx context.Context, sku, order string, left int, token uint64) error

	// Take is the whole sale of one item in one step, or ErrSoldOut.
	Take(ctx context.Context, sku, order string) (left int, err error)

	// Orders returns the ids of all orders.
	Orders(ctx context.Context) ([]string, error)
}

// SKU is the one item of the sale.
const SKU = "lamp"

// ErrSoldOut says that there is nothing left to sell.
var ErrSoldOut = errors.New("shop: sold out")

// errUnconfirmed says that a write was done, but no replica has it yet: a
// failover may lose it.
var errUnconfirmed = errors.New("shop: no replica has confirmed the order")

var (
	//go:embed place.lua
	placeSource string
	//go:embed atomic.lua
	atomicSource string

	placeScript  = redis.NewScript(placeSource)
	placeFenced  = redisfence.NewScript(placeSource)
	atomicScript = redis.NewScript(atomicSource)
)

// RedisBook is a book in Redis.
type RedisBook struct {
	RDB    redis.UniversalClient
	Prefix string // of every key of this run

	// Replicated says that there are replicas. Then an order counts when one of
	// them has it too: else a failover would take back what a buyer was told.
	Replicated bool
}

// key names a key of the book. All have one hash tag, so that a script may use
// them together.
func (b *RedisBook) key(sku, what string) string { return b.Prefix + ":{" + sku + "}:" + what }

// fence returns where the newest fencing token is. It lasts as long as the
// stock: until the end of the run.
func (b *RedisBook) fence(sku string) redisfence.Fence { return redisfence.For(b.key(sku, "stock")) }

// readLimit is how long a reader waits for a failover. A read can be repeated,
// a write cannot.
const readLimit = 10 * time.Second

func (b *RedisBook) read(ctx context.Context, once func() error) error {
	for end := time.Now().Add(readLimit); ; Pause(ctx, 50*time.Millisecond) {
		err := once()
		if err == nil || errors.Is(err, fence.ErrLateWrite) || !b.Replicated || ctx.Err() != nil ||
			time.Now().After(end) {
			return err
		}
		b.look(ctx, err)
	}
}

// Read implements [OrderBook].
func (b *RedisBook) Read(ctx context.Context, sku string, token uint64) (left int, err error) {
	err = b.read(ctx, func() (err error) {
		if token == 0 {
			left, err = b.RDB.Get(ctx, b.key(sku, "stock")).Int()
			return err
		}
		text, err := redisfence.Get(ctx, b.RDB, b.fence(sku), token, b.key(sku, "stock"))
		if err == nil {
			left, err = strconv.Atoi(text)
		}
		return err
	})
	return left, err
}

// Place implements [OrderBook].
func (b *RedisBook) Place(ctx context.Context, sku, order string, left int, token uint64) error {
	keys := []string{b.key(sku, "stock"), b.key(sku, "orders")}
	return b.write(ctx, keys[0], func(rdb redis.Scripter) error {
		if token == 0 {
			return placeScript.Run(ctx, rdb, keys, left, order).Err()
		}
		return placeFenced.Run(ctx, rdb, b.fence(sku), token, keys, left, order).Err()
	})
}

// Take implements [OrderBook].
func (b *RedisBook) Take(ctx context.Context, sku, order string) (left int, err error) {
	keys := []string{b.key(sku, "stock"), b.key(sku, "orders")}
	err = b.write(ctx, keys[0], func(rdb redis.Scripter) (err error) {
		left, err = atomicScript.Run(ctx, rdb, keys, order).Int()
		return err
	})
	if err == nil && left < 0 {
		err = ErrSoldOut
	}
	return left, err
}

// replicaLimit is how long an order waits for a replica.
const replicaLimit = time.Second

// write runs a script that writes at key, and waits for a replica if there are
// any. WAIT is for what its own connection has written, so both go over one.
func (b *RedisBook) write(ctx context.Context, key string, script func(redis.Scripter) error) error {
	if !b.Replicated {
		return script(b.RDB)
	}
	primary, err := b.primary(ctx, key)
	if err != nil {
		return err
	}
	conn := primary.Conn()
	defer conn.Close()
	if err := script(conn); err != nil {
		b.look(ctx, err)
		return err
	}
	if alone, err := isAlone(ctx, conn); err != nil || alone {
		return err
	}
	if n, err := conn.Wait(ctx, 1, replicaLimit).Result(); err != nil || n == 0 {
		return errors.Join(errUnconfirmed, err)
	}
	return nil
}

// isAlone reports whether a primary has no replica that could take its place:
// then there is none to wait for.
func isAlone(ctx context.Context, conn *redis.Conn) (bool, error) {
	role, err := conn.Do(ctx, "role").Slice()
	if err != nil || len(role) < 3 {
		return false, errors.Join(errUnconfirmed, err)
	}
	replicas, ok := role[2].([]any)
	return ok && len(replicas) == 0, nil
}

// primary returns the client of the node that has key.
func (b *RedisBook) primary(ctx context.Context, key string) (*redis.Client, error) {
	switch rdb := b.RDB.(type) {
	case *redis.ClusterClient:
		return rdb.MasterForKey(ctx, key)
	case *redis.Client:
		return rdb, nil
	}
	return nil, errors.ErrUnsupported
}

// look has a cluster client look where its nodes are, if err may mean that they
// have changed: by itself it takes a minute.
func (b *RedisBook) look(ctx context.Context, err error) {
	if cluster, ok := b.RDB.(*redis.ClusterClient); ok && err != nil && !errors.Is(err, redis.Nil) {
		cluster.ReloadState(ctx)
	}
}

// Create makes the book, with so many items on the shelf.
func (b *RedisBook) Create(ctx context.Context, stock int) error {
	return b.RDB.Set(ctx, b.key(SKU, "stock"), stock, 0).Err()
}

// Glance returns what is left and how many orders there are, at one moment.
func (b *RedisBook) Glance(ctx context.Context) (left, orders int, err error) {
	var stock *redis.StringCmd
	var book *redis.IntCmd
	_, err = b.RDB.TxPipelined(ctx, func(p redis.Pipeliner) error {
		stock, book = p.Get(ctx, b.key(SKU, "stock")), p.LLen(ctx, b.key(SKU, "orders"))
		return nil
	})
	if err != nil {
		b.look(ctx, err)
		return 0, 0, err
	}
	left, err = stock.Int()
	return left, int(book.Val()), err
}

// Orders implements [OrderBook].
func (b *RedisBook) Orders(ctx context.Context) (all []string, err error) {
	err = b.read(ctx, func() (err error) {
		all, err = b.RDB.LRange(ctx, b.key(SKU, "orders"), 0, -1).Result()
		return err
	})
	return all, err
}

// Pause waits for d, at most until ctx ends.
func Pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
