package redisproc

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

const slots = 16384

// Cluster has three primaries, and one replica for each if there are six nodes.
type Cluster struct {
	Nodes []*Server // at the start the first three are primaries, and Nodes[i+3] follows Nodes[i]
}

// StartCluster starts a cluster of three primaries, with one replica for each
// if replicas is true. args are added to the command lines. It needs Redis 7 or
// newer. It returns when all nodes agree on the owners of the slots.
func (l *Lab) StartCluster(replicas bool, args ...string) (*Cluster, error) {
	size := 3
	if replicas {
		size = 6
	}
	c := &Cluster{}
	args = append(append([]string{
		"--cluster-enabled", "yes", "--cluster-node-timeout", strconv.FormatInt(downAfter.Milliseconds(), 10),
		"--cluster-migration-barrier", "99", // replicas stay where they are
	}, prompt...), args...)
	for range size {
		node, err := l.start(func(_ string, port int) ([]string, error) {
			bus, err := freePort()
			return append([]string{
				"--port", strconv.Itoa(port), "--cluster-port", strconv.Itoa(bus),
				"--save", "",
			}, args...), err
		})
		if err != nil {
			return nil, err
		}
		c.Nodes = append(c.Nodes, node)
	}
	if err := c.meet(); err != nil {
		return nil, fmt.Errorf("redisproc: %w", err)
	}
	for i := 3; i < size; i++ {
		if err := c.Nodes[i].follow(c.Nodes[i-3]); err != nil {
			return nil, err
		}
	}
	return c, c.AwaitSettled()
}

// meet spreads the slots and introduces the nodes to each other.
func (c *Cluster) meet() error {
	first := c.Nodes[0]
	ports, err := first.do("config", "get", "cluster-port").StringSlice()
	if err != nil || len(ports) != 2 {
		return fmt.Errorf("a cluster needs Redis 7 or newer: %w", err)
	}
	for i, n := range c.Nodes {
		if i < 3 {
			err = n.do("cluster", "addslotsrange", i*slots/3, (i+1)*slots/3-1).Err()
		}
		err = errors.Join(err, n.do("cluster", "set-config-epoch", i+1).Err())
		if i > 0 {
			err = errors.Join(err, n.do("cluster", "meet", "127.0.0.1", portOf(first), ports[1]).Err())
		}
		if err != nil {
			return err
		}
	}
	return await("all nodes of the cluster know each other", func() bool {
		return c.all(func(info string) bool {
			return strings.Contains(info, "cluster_known_nodes:"+strconv.Itoa(len(c.Nodes)))
		})
	})
}

// follow makes s a replica of primary and waits for its link, because there is
// no failover without the link.
func (s *Server) follow(primary *Server) error {
	id, err := primary.do("cluster", "myid").Text()
	if err != nil {
		return fmt.Errorf("redisproc: %w", err)
	}
	if err := await("a node follows another",
		func() bool { return s.do("cluster", "replicate", id).Err() == nil }); err != nil {
		return err
	}
	return s.awaitLink()
}

// AwaitSettled waits until all nodes report that the cluster is well.
func (c *Cluster) AwaitSettled() error {
	return await("the cluster is well", func() bool {
		return c.all(func(info string) bool {
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_size:3")
		})
	})
}

func (c *Cluster) all(so func(info string) bool) bool {
	for _, n := range c.Nodes {
		if info, err := n.do("cluster", "info").Text(); err != nil || !so(info) {
			return false
		}
	}
	return true
}

// Addrs returns the addresses of all nodes.
func (c *Cluster) Addrs() []string { return addrs(c.Nodes) }

// Slot returns the slot of a key.
func (c *Cluster) Slot(key string) (int, error) {
	for _, n := range c.Nodes {
		if slot, err := n.do("cluster", "keyslot", key).Int(); err == nil {
			return slot, nil
		}
	}
	return 0, errors.New("redisproc: no node of the cluster answers")
}

// Primary returns the node that has the slot. If several nodes claim it, the
// node that was elected last counts.
func (c *Cluster) Primary(slot int) (*Server, error) {
	var primary *Server
	last := -1
	for _, n := range c.Nodes {
		if epoch, ok := n.owns(slot); ok && epoch > last {
			primary, last = n, epoch
		}
	}
	if primary == nil {
		return nil, fmt.Errorf("redisproc: no node has slot %d", slot)
	}
	return primary, nil
}

// owns reports whether the node claims to be a primary with that slot, and
// since which epoch.
func (s *Server) owns(slot int) (epoch int, ok bool) {
	text, _ := s.do("cluster", "nodes").Text()
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 8 || !strings.Contains(fields[2], "myself") || !strings.Contains(fields[2], "master") {
			continue
		}
		epoch, _ = strconv.Atoi(fields[6])
		return epoch, slices.ContainsFunc(fields[8:], func(part string) bool {
			from, to, isRange := strings.Cut(part, "-")
			if !isRange {
				to = from
			}
			a, errA := strconv.Atoi(from)
			b, errB := strconv.Atoi(to)
			return errA == nil && errB == nil && a <= slot && slot <= b // no number if a slot is being moved
		})
	}
	return 0, false
}

// Replica returns a node that follows primary, with its link up.
func (c *Cluster) Replica(primary *Server) (*Server, error) {
	for _, n := range c.Nodes {
		info, _ := n.do("info", "replication").Text()
		if strings.Contains(info, "master_port:"+portOf(primary)+"\r\n") &&
			strings.Contains(info, "master_link_status:up") {
			return n, nil
		}
	}
	return nil, fmt.Errorf("redisproc: no node follows %s", primary.Addr)
}

// Failover makes a replica of the slot's primary the new primary, and waits
// until it is. It sends CLUSTER FAILOVER followed by how, which is "", "FORCE"
// or "TAKEOVER".
func (c *Cluster) Failover(slot int, how string) error {
	old, err := c.Primary(slot)
	if err != nil {
		return err
	}
	replica, err := c.Replica(old)
	if err != nil {
		return err
	}
	line := []any{"cluster", "failover"}
	if how != "" {
		line = append(line, how)
	}
	var asked time.Time // again, because nodes give a failover up after 5 s
	var refused error
	err = await("the replica is promoted", func() bool {
		if _, promoted := replica.owns(slot); promoted {
			return true
		}
		if time.Since(asked) > 6*time.Second {
			refused, asked = replica.do(line...).Err(), time.Now()
		}
		return false
	})
	if err != nil {
		return errors.Join(err, refused)
	}
	return nil
}

// AwaitOther waits until a node other than old has the slot.
func (c *Cluster) AwaitOther(slot int, old *Server) error {
	return await("another node has the slot", func() bool {
		now, err := c.Primary(slot)
		return err == nil && now != old
	})
}

// Migrate moves a slot with its keys to another primary, key by key under load,
// as redis-cli --cluster reshard does. The slot is in migration for at least
// the duration slow.
func (c *Cluster) Migrate(slot int, to *Server, slow time.Duration) error {
	from, err := c.Primary(slot)
	if err != nil {
		return err
	}
	source, errFrom := from.do("cluster", "myid").Text()
	target, errTo := to.do("cluster", "myid").Text()
	if err := errors.Join(errFrom, errTo); err != nil || from == to {
		return errors.Join(fmt.Errorf("redisproc: slot %d cannot move from %s to %s", slot, from.Addr, to.Addr), err)
	}
	var refused error // a former replica may still be taken for one
	err = await("a slot is on its way", func() bool {
		refused = errors.Join(to.do("cluster", "setslot", slot, "importing", source).Err(),
			from.do("cluster", "setslot", slot, "migrating", target).Err())
		return refused == nil
	})
	if err != nil {
		return errors.Join(err, refused)
	}
	enough := time.Now().Add(slow)
	err = await("a slot's keys move", func() bool {
		keys, err := from.do("cluster", "getkeysinslot", slot, 100).Slice()
		if err == nil && len(keys) == 0 {
			return time.Now().After(enough)
		}
		_ = from.do(append([]any{"migrate", "127.0.0.1", portOf(to), "", 0, 2000, "keys"}, keys...)...).Err()
		return false
	})
	// a replica refuses; a node that is down learns it later
	for _, n := range append([]*Server{to, from}, c.Nodes...) {
		_ = n.do("cluster", "setslot", slot, "node", target).Err()
	}
	return err
}
