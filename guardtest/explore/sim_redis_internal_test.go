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

	"github.com/go-lockguard/guard/internal/limits"
	"github.com/go-lockguard/guard/internal/redistest"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/redislocker"
)

// redisNet is the network between the guards of a run and one Redis in memory.
// Each command that a guard writes on a connection, each message that Redis
// writes, and each dial is a gate. Its methods are safe for concurrent use.
type redisNet struct {
	*wires

	snaps   bool // a server may be promoted
	replica bool // there is one that confirms writes: nothing that it has is lost

	mu      sync.Mutex // guards the fields below; never held across a gate
	primary *redisServer
	old     *redisServer // primary before, which does not know that it is not any more; nil: none
	stays   *process     // that reaches only old
	skew    time.Duration
	links   []*link
	scripts map[string]string // that the servers have learned, by hash
	blank   bool              // the servers know no others
	past    []snapshot        // before each write, the latest last
	dialed  map[*process]int  // how often
}

// redisServer is one Redis in memory.
type redisServer struct {
	m   *miniredis.Miniredis
	srv *server.Server
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
	r.primary = r.start()
	r.snaps = slices.ContainsFunc(w.plan, func(f fault) bool { return lostWrites[f.k] > 0 })
	return r
}

// start starts a server.
func (r *redisNet) start() *redisServer {
	m, _ := redistest.InMemory(r.w.Cleanup)
	if c, err := m.Dial(); err == nil {
		_ = c.Close() // the server has started
	}
	return &redisServer{m, m.Server()}
}

// server returns the one that p reaches; nil is anybody.
func (r *redisNet) server(p *process) *redisServer {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.old != nil && p != nil && p == r.stays {
		return r.old
	}
	return r.primary
}

// begin implements simNet.
func (r *redisNet) begin(c *sim) { r.far, r.replica = c.far, c.waits }

// left implements simNet.
func (r *redisNet) left(closed bool) (left []string) {
	m := r.server(nil).m
	for _, k := range m.Keys() {
		switch ttl := m.TTL(k); {
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
	r.server(nil).m.FlushAll()
	r.loses()
}

// do carries out a command of l and returns the answer.
func (r *redisNet) do(l *link, cmd []string) (answer string) {
	switch name := strings.ToLower(cmd[0]); {
	case name == "eval", name == "evalsha":
		return r.script(l, name, cmd)
	case name == "publish":
		return proto.Int(r.publish(l.on, cmd[1], cmd[2]))
	case name == "pubsub": // numsub
		return proto.Array(proto.String(cmd[2]), proto.Int(len(r.listeners(l.on, cmd[2], false))))
	case name == "subscribe":
		return l.subscribe(cmd[1:])
	case name == "ping" && l.subscribed():
		return proto.Array(proto.String("pong"), proto.String(""))
	case name == "wait":
		return r.confirm(l, cmd[2])
	case name == "time":
		return r.time()
	}
	var b bytes.Buffer
	w := bufio.NewWriterSize(&b, 256)
	p := server.NewPeer(w)
	p.Ctx = l.ctx
	l.on.srv.Dispatch(p, cmd)
	l.ctx = p.Ctx
	p.Flush()
	return b.String()
}

// confirm is WAIT. An old primary has no replica any more.
func (r *redisNet) confirm(l *link, millis string) (answer string) {
	r.mu.Lock()
	old := l.on != r.primary
	if !old {
		r.past = nil
	}
	r.mu.Unlock()
	if !old {
		return proto.Int(1)
	}
	ms, _ := strconv.Atoi(millis)
	r.hold(l.p, time.Duration(ms)*time.Millisecond, "wait", nothing)
	return proto.Int(0)
}

// time is TIME.
func (r *redisNet) time() (answer string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	micros := time.Now().Add(r.skew).UnixMicro()
	return proto.Array(proto.String(strconv.FormatInt(micros/1e6, 10)), proto.String(strconv.FormatInt(micros%1e6, 10)))
}

// setClock sets the server's clock forward by d, or back. Keys end by it.
func (r *redisNet) setClock(d time.Duration) {
	r.mu.Lock()
	r.skew += d
	r.past = nil
	m := r.primary.m
	r.mu.Unlock()
	for _, k := range m.Keys() {
		switch ttl := m.TTL(k); {
		case ttl <= 0:
		case ttl <= d:
			m.Del(k)
		default:
			m.SetTTL(k, ttl-d)
		}
	}
	if d > 0 {
		r.loses()
	}
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
func (r *redisNet) listeners(on *redisServer, channel string, replica bool) (ls []*link) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.links {
		if heard, atReplica := l.hears(channel); heard && l.on == on && (replica || !atReplica) {
			ls = append(ls, l)
		}
	}
	return ls
}

func (r *redisNet) publish(on *redisServer, channel, text string) (n int) {
	for _, l := range r.listeners(on, channel, true) {
		l.hear(text)
	}
	return len(r.listeners(on, channel, false))
}

// snapshot is what a replica has.
type snapshot map[string]entry

type entry struct {
	text string
	set  map[string]float64
	ends time.Time // zero for never
}

// snap remembers what the server has, before a write on l.
func (r *redisNet) snap(l *link) {
	on := r.server(nil)
	if !r.snaps || l.on != on {
		return
	}
	s := on.snapshot()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.past = append(r.past, s)
}

func (s *redisServer) snapshot() snapshot {
	all := make(snapshot)
	for _, k := range s.m.Keys() {
		var e entry
		if s.m.Type(k) == "zset" {
			e.set, _ = s.m.SortedSet(k)
		} else {
			e.text, _ = s.m.Get(k)
		}
		if ttl := s.m.TTL(k); ttl > 0 {
			e.ends = time.Now().Add(ttl)
		}
		all[k] = e
	}
	return all
}

// promote makes the replica the server, which lacks the last n writes, and cuts
// the connections to the server before. Writes that the replica has confirmed
// are kept.
func (r *redisNet) promote(n int) {
	s, lost := r.lacking(n)
	if lost {
		if !r.replica {
			r.loses()
		}
		r.server(nil).restore(s)
	}
	r.cutAll(r.server(nil), nil)
}

// lacking returns what a replica has that lacks the last n writes, or fewer if
// it has confirmed those. lost is false if it lacks none.
func (r *redisNet) lacking(n int) (s snapshot, lost bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	past := r.past
	r.past = nil
	if n = min(n, len(past)); n > 0 {
		return past[len(past)-n], true
	}
	return r.primary.snapshot(), false
}

// split makes a replica the primary, as promote does, and leaves p alone with
// the old one. That one goes on for as long as k takes, and then loses all that
// it was told meanwhile.
//
// A holder that relies on renewals which only the old one has is excused, but
// not if a replica has its key and it cannot have lost more than one renewal.
func (r *redisNet) split(p *process, k kind) {
	r.mu.Lock()
	older := r.old
	r.mu.Unlock()
	r.heal(older) // there is one at most
	s, _ := r.lacking(lostWrites[k])
	fresh := r.start()
	fresh.restore(s)
	r.mu.Lock()
	old := r.primary
	r.primary, r.old, r.stays = fresh, old, p
	r.mu.Unlock()
	if d := splits[k]; !r.replica || d > time.Second/3 || len(r.w.plan) > 1 {
		r.losesUntil(time.Now().Add(d))
	}
	r.cutAll(old, p)
	time.AfterFunc(limits.Apart(splits[k]), func() { r.heal(old) })
}

// heal ends an old primary.
func (r *redisNet) heal(old *redisServer) {
	r.mu.Lock()
	is := r.old == old
	if is {
		r.old, r.stays = nil, nil
	}
	r.mu.Unlock()
	if is {
		r.cutAll(old, nil)
	}
}

// cutAll cuts the connections to a server, but for those of a process.
func (r *redisNet) cutAll(to *redisServer, but *process) {
	r.mu.Lock()
	links := slices.Clone(r.links)
	r.mu.Unlock()
	for _, l := range links {
		if l.on == to && (but == nil || l.p != but) {
			l.cut()
		}
	}
}

// restore makes the server have what a replica has.
func (s *redisServer) restore(to snapshot) {
	s.m.FlushAll()
	for k, e := range to {
		left := time.Until(e.ends)
		if !e.ends.IsZero() && left <= 0 {
			continue
		}
		for member, score := range e.set {
			_, _ = s.m.ZAdd(k, score, member)
		}
		if e.set == nil {
			_ = s.m.Set(k, e.text)
		}
		if !e.ends.IsZero() {
			s.m.SetTTL(k, left)
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
