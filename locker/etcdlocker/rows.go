package etcdlocker

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-lockguard/guard/internal/lockerkit"
	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/rowlocker"
)

// What stands in etcd. All of one lock stands side by side, because a key of a
// row has no braces.
//
//	<prefix>{K}              the row of K; under a lease that outlives what the row says
//	<prefix>{K}/c/<name>     a ticket, or a share; under a lease of its process
//	<prefix>{K}/h            says that K is owned, beside a row that ends with stays; under a lease for that
//	<prefix>{K}/r            says that the record lasts of a row that ends with recorded; under a lease for that
//	<prefix>{K}/m/<owner>    says that a claim owns K beside others, for Locker.Held; under a lease for that
//	<prefix>i/<instance>/{K} the last message to a locker about K
//	<prefix>p/<instance>     the pulse of a locker whose claims wait; under a short lease that it renews

// What is at the end of a row that is about several things at once, each of
// which ends with the key that says so. JSON takes it for space.
const (
	recorded = "\t"
	stays    = "\n" // it means something when nobody owns its key any more
)

// ends reports how a row ends.
func ends(value []byte, with string) bool {
	return bytes.Contains(value[len(bytes.TrimRight(value, recorded+stays)):], []byte(with))
}

// tagOf returns the Tag of a row.
func tagOf(value []byte) (tag string) {
	if ends(value, recorded) {
		tag = recorded
	}
	return tag
}

// rows are the [rowlocker.Rows] in etcd.
type rows struct {
	prefix string
	servers
	*sessions

	pulse atomic.Int64                       // the etcd lease under which the pulse was written last
	stop  atomic.Pointer[context.CancelFunc] // ends the present watch; nil before the first
}

var _ interface {
	rowlocker.Pulse
	rowlocker.Worker
	rowlocker.Explaining
} = (*rows)(nil)

func newRows(client *clientv3.Client) *rows {
	r := &rows{prefix: "guard/"}
	r.members, r.changed = []*clientv3.Client{client}, r.watchAgain
	r.sessions = newSessions(&r.servers)
	return r
}

const (
	batchMax = 50  // changes in one request; etcd takes 128 operations by default
	readsMax = 100 // keys that are read by one request
	scanMax  = 500 // entries in one page
)

func (*rows) Traits() rowlocker.Traits {
	return rowlocker.Traits{
		Name: store, Blind: true, Tickets: true, Members: true, Workers: 2, Batch: batchMax,
		Limits: limits, Findings: findings,
	}
}

// Open checks the settings.
func (r *rows) Open() error {
	if r.prefix == "" {
		return lockerkit.Invalid(store, "WithPrefix: the prefix is empty")
	}
	return r.servers.open()
}

func (r *rows) rowKey(key string) string          { return r.prefix + "{" + key + "}" }
func (r *rows) ownedKey(key string) string        { return r.rowKey(key) + "/h" }
func (r *rows) keptKey(key string) string         { return r.rowKey(key) + "/r" }
func (r *rows) markKey(key, owner string) string  { return r.rowKey(key) + "/m/" + owner }
func (r *rows) ticketKey(key, name string) string { return r.rowKey(key) + "/c/" + name }
func (r *rows) pulseKey(instance string) string   { return r.prefix + "p/" + instance }
func (r *rows) inbox(instance string) string      { return r.prefix + "i/" + instance + "/{" }

// rangeEnd is behind all that stands in etcd about a key, because '0' follows
// '/'.
func (r *rows) rangeEnd(key string) string { return r.rowKey(key) + "0" }

// get reads all that stands about a key.
func (r *rows) get(key string) clientv3.Op {
	return clientv3.OpGet(r.rowKey(key), clientv3.WithRange(r.rangeEnd(key)))
}

// Load reads the rows by requests that write nothing.
func (r *rows) Load(ctx context.Context, keys []string) ([]rowlocker.Row, error) {
	found, err := r.read(ctx, keys, r.get)
	rows := make([]rowlocker.Row, len(found))
	for i, one := range found {
		rows[i] = r.rowOf(keys[i], one)
	}
	return rows, r.tryError(err)
}

// read gets what is named, some at a time.
func (r *rows) read(
	ctx context.Context, names []string, get func(name string) clientv3.Op,
) (found []*etcdserverpb.ResponseOp, err error) {
	for some := range slices.Chunk(names, readsMax) {
		gets := make([]clientv3.Op, len(some))
		for i, name := range some {
			gets[i] = get(name)
		}
		answer, err := r.txn(ctx, nil, gets, nil)
		if err != nil {
			return nil, err
		}
		found = append(found, answer.Responses...)
	}
	return found, nil
}

// rowOf returns the row of key that an operation has read.
func (r *rows) rowOf(key string, found *etcdserverpb.ResponseOp) rowlocker.Row {
	rows := r.gather(nil, found.GetResponseRange().Kvs)
	if len(rows) == 0 {
		return rowlocker.Row{Key: key}
	}
	return rows[0]
}

// gather adds what stands in etcd, in the order of its keys, to the rows that
// were read before it.
func (r *rows) gather(all []rowlocker.Row, kvs []*mvccpb.KeyValue) []rowlocker.Row {
	for _, kv := range kvs {
		key, rest, ok := strings.Cut(string(kv.Key[len(r.prefix)+1:]), "}")
		if !ok {
			continue
		}
		if len(all) == 0 || all[len(all)-1].Key != key {
			all = append(all, rowlocker.Row{Key: key})
		}
		row := &all[len(all)-1]
		switch name, isTicket := strings.CutPrefix(rest, "/c/"); {
		case rest == "":
			row.Version, row.Value, row.Tag = kv.ModRevision, kv.Value, tagOf(kv.Value)
			row.Vacant, row.Forgot = ends(kv.Value, stays), ends(kv.Value, recorded)
		case rest == "/h":
			row.Vacant = false
		case rest == "/r":
			row.Forgot = false
		case isTicket:
			row.Tickets = append(row.Tickets, rowlocker.Ticket{Name: name, Version: kv.ModRevision, Value: kv.Value})
		}
	}
	return all
}

// Scan reads pages until the row behind the last one has begun.
func (r *rows) Scan(ctx context.Context, after string, n int) (all []rowlocker.Row, err error) {
	from, end := r.prefix+"{", clientv3.GetPrefixRangeEnd(r.prefix+"{")
	if after != "" {
		from = r.rangeEnd(after)
	}
	for more := true; more && len(all) <= n; {
		get := clientv3.OpGet(from, clientv3.WithRange(end), clientv3.WithLimit(scanMax))
		answer, err := r.txn(ctx, nil, []clientv3.Op{get}, nil)
		if err != nil {
			return nil, r.tryError(err)
		}
		page := answer.Responses[0].GetResponseRange()
		all = r.gather(all, page.Kvs)
		if more = page.More && len(page.Kvs) > 0; more {
			from = string(page.Kvs[len(page.Kvs)-1].Key) + "\x00"
		}
	}
	return all[:min(n, len(all))], nil
}

// begins says that the value of a key begins with some text and a '/'. The text
// comes before '0', which follows '/'.
func begins(key, with string) []clientv3.Cmp {
	return []clientv3.Cmp{
		clientv3.Compare(clientv3.Value(key), ">", with+"/"),
		clientv3.Compare(clientv3.Value(key), "<", with+"0"),
	}
}

func exists(key string) clientv3.Cmp { return clientv3.Compare(clientv3.CreateRevision(key), ">", 0) }

// isFirst reports whether nothing may stand at the key of a row.
func isFirst(row *rowlocker.Row) bool { return row.Alone && row.Version == 0 && row.Beside == 0 }

// unchanged says that a row, and if Alone its tickets, are as they are known.
func (r *rows) unchanged(row *rowlocker.Row) []clientv3.Cmp {
	key, tickets := r.rowKey(row.Key), r.ticketKey(row.Key, "")
	if isFirst(row) { // the first in etcd's order are the row and its tickets
		created := clientv3.CreateRevision(key).WithRange(clientv3.GetPrefixRangeEnd(tickets))
		return []clientv3.Cmp{clientv3.Compare(created, "=", 0)}
	}
	ifs := []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", row.Version)}
	if row.Alone {
		ifs = append(ifs, clientv3.Compare(clientv3.ModRevision(tickets).WithPrefix(), "<", row.Beside+1))
	}
	return ifs
}

// isOwner says that the claim of h owns its key.
func (r *rows) isOwner(h locker.Hold) []clientv3.Cmp {
	if h.Limit > 1 {
		return []clientv3.Cmp{exists(r.markKey(h.Key, h.Owner))}
	}
	return begins(r.rowKey(h.Key), h.Owner)
}
