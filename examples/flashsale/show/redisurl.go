package show

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/redis/go-redis/v9"
)

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
