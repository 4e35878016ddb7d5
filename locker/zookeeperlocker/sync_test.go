package zookeeperlocker

import (
	"encoding/binary"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-lockguard/guard/locker/zookeeperlocker/zktest"
)

// The codes of requests in ZooKeeper's protocol.
const opGetData, opSync, opPing, opMulti = 4, 9, 11, 14

// requests notes the codes of the requests that a connection sends, but
// pings.
type requests struct {
	net.Conn

	mu    sync.Mutex // guards codes
	codes []uint32
}

// Write gets one request at a time, behind its length and number.
func (r *requests) Write(b []byte) (int, error) {
	if len(b) >= 12 {
		if code := binary.BigEndian.Uint32(b[8:]); code != opPing {
			r.mu.Lock()
			r.codes = append(r.codes, code)
			r.mu.Unlock()
		}
	}
	return r.Conn.Write(b)
}

func (r *requests) since(mark int) []uint32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.codes[mark:])
}

// counting returns a connection to a server of the test, and what that sends.
func counting(t *testing.T) (*zk.Conn, *requests) {
	t.Helper()
	s := zktest.Start(t, 1, zktest.Settings{})[0]
	var seen *requests
	conn, _, err := zk.Connect([]string{s.Addr}, 10*time.Second, zk.WithLogInfo(false),
		zk.WithDialer(func(network, addr string, timeout time.Duration) (net.Conn, error) {
			c, err := net.DialTimeout(network, addr, timeout)
			seen = &requests{Conn: c}
			return seen, err
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	if _, _, err := conn.Get("/"); err != nil {
		t.Fatal(err)
	}
	return conn, seen
}

// A server may lag. A claim that is told to wait counts an offer from its look,
// so a look must not be behind what others count from.
func TestALookKnowsWhatTheLeaderKnows(t *testing.T) {
	t.Parallel()
	conn, seen := counting(t)
	r := New(conn, WithPrefix("/sync")).rows
	for name, look := range map[string]func() error{
		"Load":   func() error { _, err := r.Load(t.Context(), []string{"k"}); return err },
		"Glance": func() error { _, err := r.Glance(t.Context(), []string{"k"}); return err },
	} {
		r.verified.Store(nil)
		mark := len(seen.since(0))
		if err := look(); err != nil {
			t.Fatal(name, err)
		}
		if codes := seen.since(mark); len(codes) < 2 || codes[0] != opSync || codes[1] != opGetData {
			t.Errorf("%s sends %v, want a sync in front of all reads", name, codes)
		}
	}
}

// A look that has no sync of its own may not know of a hand-over just before.
// The claim that is told to wait counts its offer from the look, so the others
// count it that much longer.
func TestOffersLastLongerForOthersThanALookMayBeBehind(t *testing.T) {
	r := &rows{}
	if grain := r.Traits().Grain; grain < verifiedFor {
		t.Errorf("%v longer, and a look may be behind by %v", grain, verifiedFor)
	}
}
