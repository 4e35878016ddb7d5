package show

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/examples/flashsale/shop"
	"github.com/go-lockguard/guard/internal/faultpipe"
)

// store is the parent's own view of Redis and of the book: it fills the shelf
// before the sale and counts after it.
type store struct {
	addr   string // of Redis, as the instances need it
	name   string // as people may see it
	prefix string // of every key of this run
	redis  endpoint
	rdb    redis.UniversalClient
	mini   *miniredis.Miniredis // nil: a real server

	book *shop.RedisBook
}

// openStore starts the embedded Redis, or looks whether the one of the flags
// answers.
func openStore(ctx context.Context, cfg config, run string) (_ *store, err error) {
	s := &store{addr: cfg.redis, prefix: "flashsale:" + run}
	undo := s.shut
	defer func() {
		if err != nil {
			_ = undo()
		}
	}()
	if err = s.openRedis(ctx); err != nil {
		return nil, err
	}
	s.book = openBook(s.rdb, s.redis, s.prefix)
	undo = func() error { // a part of the book may be there, if only because somebody has interrupted us
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
		defer cancel()
		return s.close(ctx)
	}
	if err = s.book.Create(ctx, cfg.stock); err != nil {
		return nil, fmt.Errorf("the book in Redis: %w", err)
	}
	return s, nil
}

func (s *store) openRedis(ctx context.Context) (err error) {
	if s.addr == "" {
		s.mini = miniredis.NewMiniRedis()
		s.mini.ClockTTL(true) // else no key would ever expire
		if err := s.mini.StartAddr("127.0.0.1:0"); err != nil {
			return fmt.Errorf("embedded Redis: %w", err)
		}
		s.addr, s.name = s.mini.Addr(), "embedded"
	}
	if s.redis, err = parseRedis(s.addr); err != nil {
		return fmt.Errorf("-redis: %w", err)
	}
	if s.name == "" {
		s.name = s.redis.name()
	}
	if s.redis.single != nil {
		s.redis.single.DialerRetries = 1 // a server that is not there is said to be so once, and at once
	}
	s.rdb = s.redis.open()
	if err := s.rdb.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("cannot use Redis %s: %w", s.name, err)
	}
	return nil
}

// openBook opens the book of a run. The parent has created it, or will.
func openBook(rdb redis.UniversalClient, e endpoint, run string) *shop.RedisBook {
	return &shop.RedisBook{RDB: rdb, Keys: shop.Keys(run), Replicated: e.replicated()}
}

// startBreaker puts something between the instances and this Redis that can cut
// it off. It is for a single server.
func (s *store) startBreaker(ctx context.Context) (*breaker, error) {
	opts := s.rdb.(*redis.Client).Options()
	return startBreaker(ctx, opts.Network, opts.Addr)
}

// close removes every key of this run, the guard's too, and ends the embedded
// Redis.
func (s *store) close(ctx context.Context) (err error) {
	if s.mini == nil {
		err = s.removeKeys(ctx)
	}
	return errors.Join(err, s.shut())
}

// shut closes what is open.
func (s *store) shut() (err error) {
	if s.rdb != nil {
		err = s.rdb.Close()
	}
	if s.mini != nil {
		s.mini.Close()
	}
	return err
}

func (s *store) removeKeys(ctx context.Context) (err error) {
	switch rdb := s.rdb.(type) {
	case *redis.ClusterClient:
		err = rdb.ForEachMaster(ctx, s.removeKeysAt)
	case *redis.Client:
		err = s.removeKeysAt(ctx, rdb)
	}
	if err != nil {
		return fmt.Errorf("the keys %s:* are left in Redis: %w", s.prefix, err)
	}
	return nil
}

// removeKeysAt removes the keys that one node has, one by one: in a cluster
// they are in many slots.
func (s *store) removeKeysAt(ctx context.Context, node *redis.Client) error {
	found := node.Scan(ctx, 0, s.prefix+":*", 1000).Iterator()
	_, err := node.Pipelined(ctx, func(p redis.Pipeliner) error {
		for found.Next(ctx) {
			p.Unlink(ctx, found.Val())
		}
		return found.Err()
	})
	return err
}

// endpoint is how a Redis is reached: one of the three is set. Its errors and
// its name never have a password in them.
type endpoint struct {
	single   *redis.Options
	sentinel *redis.FailoverOptions
	cluster  *redis.ClusterOptions
}

// redisForms is what -redis takes.
const redisForms = "want host:port, redis://[user:password@]host:port/db, " +
	"redis+sentinel://host:port,host:port/master " +
	"or redis+cluster://host:port,host:port, with rediss for TLS"

// parseRedis reads a Redis address in any of its forms. Nothing is sent twice,
// unless the address says so: a write without an answer may have been done.
func parseRedis(addr string) (e endpoint, err error) {
	scheme, rest, ok := strings.Cut(addr, "://")
	plain, kind, _ := strings.Cut(scheme, "+")
	switch {
	case !ok && strings.Contains(addr, "@"): // it is not quoted: a password may be in it
		return e, errors.New("an address with a password is a URL: " + redisForms)
	case ok && misplacedAt(rest):
		return e, errMisplacedAt
	case !ok:
		if _, port, err := net.SplitHostPort(addr); err != nil || port == "" {
			return e, fmt.Errorf("%q has no port: %s", addr, redisForms)
		}
		e.single = &redis.Options{Addr: addr}
	case scheme == "redis" || scheme == "rediss" || scheme == "unix":
		e.single, err = redis.ParseURL(addr)
	case plain != "redis" && plain != "rediss":
		return e, fmt.Errorf("the scheme is %q: %s", scheme, redisForms)
	case kind == "sentinel":
		e.sentinel, err = parseSentinel(plain, rest)
	case kind == "cluster":
		e.cluster, err = parseCluster(plain, rest)
	default:
		return e, fmt.Errorf("the scheme is %q: %s", scheme, redisForms)
	}
	if malformed := (*url.Error)(nil); errors.As(err, &malformed) { // it quotes all of the address
		err = errors.New("this is no URL: " + redisForms)
	}
	return e.once(), err
}

// errMisplacedAt does not quote the address: what stands in front of the @ is a
// part of a password, most likely.
var errMisplacedAt = errors.New("an @ behind the host: in users, passwords and parameters / ? # @ are written " +
	"%2F %3F %23 %40")

// misplacedAt reports whether there is an @ behind the host of a URL, given
// from its host on. It is so if a password has one of the characters that end
// the host: everything would be read as something else then, and be shown.
func misplacedAt(rest string) bool {
	end := strings.IndexAny(rest, "/?#")
	return end >= 0 && strings.Contains(rest[end:], "@")
}

// once switches repetitions off where the address leaves that open.
func (e endpoint) once() endpoint {
	switch {
	case e.single != nil && e.single.MaxRetries == 0:
		e.single.MaxRetries = -1
	case e.sentinel != nil && e.sentinel.MaxRetries == 0:
		e.sentinel.MaxRetries = -1
	case e.cluster != nil && e.cluster.MaxRetries == 0:
		e.cluster.MaxRetries = -1
	}
	return e
}

// parseSentinel reads what comes after redis+sentinel://. User and password in
// front of the hosts are the Sentinels'; those of the servers are parameters,
// as go-redis has it: username and password.
func parseSentinel(plain, rest string) (*redis.FailoverOptions, error) {
	u, err := severalHosts(plain, rest)
	if err != nil {
		return nil, err
	}
	q := u.Query()
	if master := strings.TrimPrefix(u.Path, "/"); master != "" {
		q.Set("master_name", master)
	}
	if q.Get("master_name") == "" {
		return nil, errors.New("no name of the primary: want redis+sentinel://host:port,host:port/master, ?db= " +
			"for a database")
	}
	u.Path, u.RawPath, u.RawQuery = "", "", q.Encode()
	return redis.ParseFailoverURL(u.String())
}

// parseCluster reads what comes after redis+cluster://.
func parseCluster(plain, rest string) (*redis.ClusterOptions, error) {
	u, err := severalHosts(plain, rest)
	if err != nil {
		return nil, err
	}
	if u.Path != "" && u.Path != "/" {
		return nil, fmt.Errorf("a cluster has no %q: want redis+cluster://host:port,host:port", u.Path)
	}
	return redis.ParseClusterURL(u.String())
}

// severalHosts reads a URL with a list of hosts, and returns the one that
// go-redis takes: of the first, with the others as parameters.
func severalHosts(plain, rest string) (*url.URL, error) {
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	user := rest[:strings.LastIndex(rest[:end], "@")+1]
	hosts := strings.Split(rest[len(user):end], ",")
	for _, host := range hosts {
		if h, port, err := net.SplitHostPort(host); err != nil || h == "" || port == "" {
			return nil, fmt.Errorf("%q among the hosts, want host:port", host)
		}
	}
	u, err := url.Parse(plain + "://" + user + hosts[0] + rest[end:])
	if err != nil {
		return nil, err
	}
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, err
	}
	for _, host := range hosts[1:] {
		q.Add("addr", host)
	}
	u.RawQuery = q.Encode()
	return u, nil
}

// name returns the address as people may see it.
func (e endpoint) name() string {
	switch {
	case e.sentinel != nil:
		return e.sentinel.MasterName + " of the Sentinels at " + strings.Join(e.sentinel.SentinelAddrs, ", ")
	case e.cluster != nil:
		return "Cluster at " + strings.Join(e.cluster.Addrs, ", ")
	}
	return e.single.Addr
}

// replicated says that writes are to be found on replicas too.
func (e endpoint) replicated() bool { return e.single == nil }

// open returns a client.
func (e endpoint) open() redis.UniversalClient {
	switch {
	case e.sentinel != nil:
		return redis.NewFailoverClient(e.sentinel)
	case e.cluster != nil:
		return redis.NewClusterClient(e.cluster)
	}
	return redis.NewClient(e.single)
}

// breaker stands between the instances and Redis, and can cut them off. It then
// closes their connections, and new ones as soon as they are made. It does not
// look at the bytes that it passes on. It is safe for concurrent use.
type breaker struct {
	*faultpipe.Pipe

	end context.CancelFunc // ends the breaker's own dials

	mu    sync.Mutex // guards until
	until time.Time  // cut off until then
}

var errCutOff = errors.New("cut off")

// startBreaker listens on a port of its own for as long as it is not closed.
func startBreaker(ctx context.Context, network, upstream string) (*breaker, error) {
	p, err := faultpipe.New(ctx)
	if err != nil {
		return nil, err
	}
	b := &breaker{Pipe: p}
	ctx, b.end = context.WithCancel(context.WithoutCancel(ctx))
	dialer := &net.Dialer{Timeout: 5 * time.Second}
	p.Serve(func(client net.Conn) (faultpipe.Link, error) {
		if b.isCut() {
			return nil, errCutOff
		}
		server, err := dialer.DialContext(ctx, network, upstream)
		return &link{b, client, server}, err
	})
	return b, nil
}

// cut cuts everybody off for d.
func (b *breaker) cut(d time.Duration) {
	b.mu.Lock()
	b.until = time.Now().Add(d)
	b.mu.Unlock()
	b.Cut(nil)
}

func (b *breaker) isCut() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Now().Before(b.until)
}

// close ends every connection and waits for its goroutines.
func (b *breaker) close() {
	b.end()
	b.Close()
}

// link is one connection through a breaker.
type link struct {
	breaker        *breaker
	client, server net.Conn
}

// Ends implements [faultpipe.Link].
func (l *link) Ends() (client, server net.Conn) { return l.client, l.server }

// Up implements [faultpipe.Link].
func (l *link) Up(b []byte) bool { return l.pass(l.server, b) }

// Down implements [faultpipe.Link].
func (l *link) Down(b []byte) bool { return l.pass(l.client, b) }

// pass writes b to one end. It looks for a cut itself, because the link may
// have been dialed while the others were cut.
func (l *link) pass(to net.Conn, b []byte) bool {
	if l.breaker.isCut() {
		return false
	}
	_, err := to.Write(b)
	return err == nil
}
