package redisproc

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// SentinelName is what sentinels call the primary that they watch.
const SentinelName = "mymaster"

// downAfter is the time without an answer after which a node counts as down,
// for sentinels and in a cluster.
const downAfter = time.Second

// prompt makes a replica follow at once and exchange pings with its primary
// often.
var prompt = []string{
	"--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0",
	"--repl-ping-replica-period", "1",
}

// Sentinel is a primary with two replicas, watched by three sentinels.
type Sentinel struct {
	Nodes     []*Server // at the start the first is the primary
	Sentinels []*Server
}

// StartSentinel starts a Sentinel with args added to the command lines of its
// nodes. It returns when all nodes know each other.
func (l *Lab) StartSentinel(args ...string) (*Sentinel, error) {
	args = slices.Concat(prompt, args)
	primary, err := l.Start(args...)
	if err != nil {
		return nil, err
	}
	host, port, _ := net.SplitHostPort(primary.Addr)
	replicas, err := l.StartN(2, append(args, "--replicaof", host+" "+port)...)
	if err != nil {
		return nil, err
	}
	for _, r := range replicas {
		if err := r.awaitLink(); err != nil {
			return nil, err
		}
	}
	s := &Sentinel{Nodes: append([]*Server{primary}, replicas...)}
	for range 3 {
		sentinel, err := l.Watch(primary)
		if err != nil {
			return nil, err
		}
		s.Sentinels = append(s.Sentinels, sentinel)
	}
	for _, sentinel := range s.Sentinels {
		if err := sentinel.awaitPeers(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Watch starts a sentinel for a primary. The sentinel discovers the others that
// watch the same primary.
func (l *Lab) Watch(primary *Server) (*Server, error) {
	host, port, _ := net.SplitHostPort(primary.Addr)
	return l.start(func(dir string, own int) ([]string, error) { return sentinelConfig(dir, own, host, port) })
}

// sentinelConfig writes the file that a sentinel needs, and returns the command
// line.
func sentinelConfig(dir string, own int, host, port string) ([]string, error) {
	file := filepath.Join(dir, "sentinel.conf")
	config := fmt.Sprintf("port %[2]d\nsentinel monitor %[1]s %[3]s %[4]s 2\nsentinel "+
		"down-after-milliseconds %[1]s %[5]d\n"+
		"sentinel failover-timeout %[1]s 5000\nsentinel parallel-syncs %[1]s 2\n",
		SentinelName, own, host, port, downAfter.Milliseconds())
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, fmt.Errorf("redisproc: %w", err)
	}
	return []string{file, "--sentinel"}, nil
}

// awaitLink waits until the server follows its primary.
func (s *Server) awaitLink() error {
	return await("a replica follows its primary", func() bool {
		info, _ := s.do("info", "replication").Text()
		return strings.Contains(info, "master_link_status:up")
	})
}

// awaitPeers waits until a sentinel knows two replicas and two sentinels. Where
// it can, it makes them announce themselves more often than every 2 s.
func (s *Server) awaitPeers() error {
	_ = s.do("sentinel", "debug", "publish-period", "100").Err()
	defer s.do("sentinel", "debug", "publish-period", "2000")
	return await("sentinels know each other", func() bool {
		known, _ := s.do("sentinel", "master", SentinelName).StringSlice()
		at := map[string]string{}
		for i := 0; i+1 < len(known); i += 2 {
			at[known[i]] = known[i+1]
		}
		return at["num-slaves"] == "2" && at["num-other-sentinels"] == "2"
	})
}

// Addrs returns the addresses of the sentinels.
func (s *Sentinel) Addrs() []string { return addrs(s.Sentinels) }

// Primary returns the node that a majority of sentinels call the primary.
func (s *Sentinel) Primary() (*Server, error) {
	votes := map[string]int{}
	for _, sentinel := range s.Sentinels {
		at, err := sentinel.do("sentinel", "get-master-addr-by-name", SentinelName).StringSlice()
		if err == nil && len(at) == 2 {
			votes[net.JoinHostPort(at[0], at[1])]++
		}
	}
	for _, n := range s.Nodes {
		if votes[n.Addr] > len(s.Sentinels)/2 {
			return n, nil
		}
	}
	return nil, fmt.Errorf("redisproc: the sentinels know no common primary: %v", votes)
}

// Failover makes a sentinel replace the primary, with SENTINEL FAILOVER. It
// returns once the other sentinels know the new primary.
func (s *Sentinel) Failover() error {
	old, err := s.Primary()
	if err != nil {
		return err
	}
	var refused error
	err = await("a failover begins", func() bool { // refused while an earlier one has not settled
		for _, sentinel := range s.Sentinels {
			if refused = sentinel.do("sentinel", "failover", SentinelName).Err(); refused == nil {
				return true
			}
		}
		return false
	})
	if err != nil {
		return fmt.Errorf("%w: %w", err, refused)
	}
	return s.AwaitOther(old)
}

// AwaitOther waits until a majority of sentinels call a node other than old the
// primary.
func (s *Sentinel) AwaitOther(old *Server) error {
	return await("there is a new primary", func() bool {
		now, err := s.Primary()
		return err == nil && now != old
	})
}

func addrs(servers []*Server) []string {
	all := make([]string, len(servers))
	for i, s := range servers {
		all[i] = s.Addr
	}
	return all
}

// portOf returns the port of a server.
func portOf(s *Server) string {
	_, port, _ := net.SplitHostPort(s.Addr)
	return port
}
