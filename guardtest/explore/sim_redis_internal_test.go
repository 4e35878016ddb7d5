package explore

import (
	"bufio"
	"bytes"
	"crypto/sha1" // how Redis names scripts
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/proto"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// redisNet is the network between the guards of a run and one Redis in memory.
// Each command that a guard writes on a connection, each message that Redis
// writes, and each dial is a gate. Its methods are safe for concurrent use.
type redisNet struct {
	*wires

	m       *miniredis.Miniredis
	srv     *server.Server
	snaps   bool // a server may be promoted
	replica bool // there is one that confirms writes: nothing that it has is lost

	mu      sync.Mutex // guards the fields below; never held across a gate
	links   []*link
	scripts map[string]string // that the server has learned, by hash
	blank   bool              // the server knows no others
	past    []snapshot        // before each write, the latest last
	dialed  map[*process]int  // how often
}

// interpreters are those of all runs.
var interpreters redistest.Scripts

// crowded says that a request may have waited for one of its client's poolSize
// connections. go-redis then keeps a timer of the bubble for other clients,
// which panic on it in another bubble.
var crowded atomic.Bool

const poolSize = 16 // of redislocker

func newRedisNet(w *World) *redisNet {
	if crowded.Swap(false) {
		runtime.GC() // empties a sync.Pool, in two steps
		runtime.GC()
	}
	r := &redisNet{wires: newWires(w), scripts: make(map[string]string), dialed: make(map[*process]int)}
	r.m, _ = redistest.InMemory(w.Cleanup)
	if c, err := r.m.Dial(); err == nil {
		_ = c.Close() // the server has started
	}
	r.srv = r.m.Server()
	r.snaps = slices.ContainsFunc(w.plan, func(f fault) bool { return lostWrites[f.k] > 0 })
	return r
}

// begin implements simNet.
func (r *redisNet) begin(c *sim) { r.far, r.replica = c.far, c.waits }

// left implements simNet.
func (r *redisNet) left(closed bool) (left []string) {
	for _, k := range r.m.Keys() {
		switch ttl := r.m.TTL(k); {
		case closed:
			if strings.HasSuffix(k, "}") {
				left = append(left, k)
			}
		case ttl <= 0:
			left = append(left, k+" without a TTL")
		case !strings.HasSuffix(k, ":fence") && !strings.HasSuffix(k, ":kept"):
			left = append(left, fmt.Sprintf("%s for %v more", k, ttl))
		}
	}
	return left
}

// locker implements network.
func (r *redisNet) locker(p *process) locker.Locker {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379", Dialer: r.dialer(p)})
	r.w.Cleanup(func() { _ = rdb.Close() })
	if r.replica {
		return redislocker.New(rdb, redislocker.WithReplicas(1, time.Second))
	}
	return redislocker.New(rdb)
}

// forget implements network.
func (r *redisNet) forget() {
	r.m.FlushAll()
	r.loses()
}

// do carries out a command of l and returns the answer.
func (r *redisNet) do(l *link, cmd []string) (answer string) {
	switch name := strings.ToLower(cmd[0]); {
	case name == "eval", name == "evalsha":
		return r.script(l, name, cmd)
	case name == "publish":
		return proto.Int(r.publish(cmd[1], cmd[2]))
	case name == "pubsub": // numsub
		return proto.Array(proto.String(cmd[2]), proto.Int(len(r.listeners(cmd[2], false))))
	case name == "subscribe":
		return l.subscribe(cmd[1:])
	case name == "ping" && l.subscribed():
		return proto.Array(proto.String("pong"), proto.String(""))
	case name == "wait":
		r.mu.Lock()
		defer r.mu.Unlock()
		r.past = nil
		return proto.Int(1)
	}
	var b bytes.Buffer
	w := bufio.NewWriterSize(&b, 256)
	p := server.NewPeer(w)
	p.Ctx = l.ctx
	r.srv.Dispatch(p, cmd)
	l.ctx = p.Ctx
	p.Flush()
	return b.String()
}

// script runs a script. Each server knows the scripts of the locker, unless it
// has forgotten them.
func (r *redisNet) script(l *link, name string, cmd []string) string {
	text := cmd[1]
	if name == "evalsha" {
		known, ok := r.known(cmd[1])
		if !ok {
			return proto.Error("NOSCRIPT No matching script. Please use EVAL.")
		}
		text = known
	} else {
		r.learn(text)
	}
	n, _ := strconv.Atoi(cmd[2])
	call := func(command []string) string { return r.do(l, command) }
	return interpreters.Run(planted(text), cmd[3:3+n], cmd[3+n:], call)
}

func (r *redisNet) known(sha string) (text string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if text, ok = r.scripts[sha]; !ok && !r.blank {
		text = library()[sha].text
	}
	return text, text != ""
}

func (r *redisNet) learn(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.scripts[hash(text)] = text
}

// forgetScripts is SCRIPT FLUSH.
func (r *redisNet) forgetScripts() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.blank = true
	clear(r.scripts)
}

func hash(text string) string {
	sum := sha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

// knownScript is a script of redislocker.
type knownScript struct{ name, text string }

// library is the scripts of redislocker, by hash, as its tests show them.
var library = sync.OnceValue(func() map[string]knownScript {
	all := make(map[string]knownScript)
	files, _ := filepath.Glob("../../locker/redislocker/testdata/*.lua")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			panic(err)
		}
		all[hash(string(text))] = knownScript{strings.TrimSuffix(filepath.Base(file), ".lua"), string(text)}
	}
	return all
})

// listeners are the subscriptions to a channel. The server does not count those
// at its replica.
func (r *redisNet) listeners(channel string, replica bool) (ls []*link) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.links {
		if heard, atReplica := l.hears(channel); heard && (replica || !atReplica) {
			ls = append(ls, l)
		}
	}
	return ls
}

func (r *redisNet) publish(channel, text string) (n int) {
	for _, l := range r.listeners(channel, true) {
		l.hear(text)
	}
	return len(r.listeners(channel, false))
}

// snapshot is what a replica has.
type snapshot map[string]entry

type entry struct {
	text string
	set  map[string]float64
	ends time.Time // zero for never
}

// snap remembers what the server has, before a write.
func (r *redisNet) snap() {
	if !r.snaps {
		return
	}
	s := make(snapshot)
	for _, k := range r.m.Keys() {
		var e entry
		if r.m.Type(k) == "zset" {
			e.set, _ = r.m.SortedSet(k)
		} else {
			e.text, _ = r.m.Get(k)
		}
		if ttl := r.m.TTL(k); ttl > 0 {
			e.ends = time.Now().Add(ttl)
		}
		s[k] = e
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.past = append(r.past, s)
}

// promote makes the replica the server, which lacks the last n writes, and cuts
// all connections. Writes that the replica has confirmed are kept.
func (r *redisNet) promote(n int) {
	r.mu.Lock()
	links, lost := slices.Clone(r.links), min(n, len(r.past))
	var s snapshot
	if lost > 0 {
		s = r.past[len(r.past)-lost]
	}
	r.past = nil
	r.mu.Unlock()
	if lost > 0 {
		if !r.replica {
			r.loses()
		}
		r.restore(s)
	}
	for _, l := range links {
		l.cut()
	}
}

func (r *redisNet) restore(s snapshot) {
	r.m.FlushAll()
	for k, e := range s {
		left := time.Until(e.ends)
		if !e.ends.IsZero() && left <= 0 {
			continue
		}
		for member, score := range e.set {
			_, _ = r.m.ZAdd(k, score, member)
		}
		if e.set == nil {
			_ = r.m.Set(k, e.text)
		}
		if !e.ends.IsZero() {
			r.m.SetTTL(k, left)
		}
	}
}

// links of a process, in their order.
func (r *redisNet) of(p *process) (ls []*link) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.links {
		if l.p == p {
			ls = append(ls, l)
		}
	}
	return ls
}

func (r *redisNet) add(l *link) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.links = append(r.links, l)
}

// dials notes that p dials. A request that waits does so because there were
// poolSize dials.
func (r *redisNet) dials(p *process) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dialed[p]++; r.dialed[p] >= poolSize {
		crowded.Store(true)
	}
}

func (r *redisNet) remove(l *link) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.links = slices.DeleteFunc(r.links, func(o *link) bool { return o == l })
}
