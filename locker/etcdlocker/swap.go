package etcdlocker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-lockguard/guard/locker"
	"github.com/go-lockguard/guard/locker/rowlocker"
)

const (
	messageMax = 4 << 10 // bytes of the longest row that travels in a message
	opsMax     = 128     // operations that etcd takes by default, with those of transactions around them
)

// Swap sends the changes in one request. One that etcd refuses keeps it from
// doing the others, so they then go one by one.
func (r *rows) Swap(ctx context.Context, changes []*rowlocker.Change) error {
	err := r.swap(ctx, changes)
	if len(changes) == 1 || !refused(err) {
		return err
	}
	for i, c := range changes {
		c.Err = r.swap(ctx, changes[i:i+1])
	}
	return nil
}

// swap sends the changes in one request, and again if an etcd lease has ended
// meanwhile.
func (r *rows) swap(ctx context.Context, changes []*rowlocker.Change) (err error) {
	for range 3 {
		s := &step{rows: r, ctx: ctx, leases: map[*session]clientv3.LeaseID{}}
		parts := make([]part, len(changes))
		for i, c := range changes {
			s.part = &parts[i]
			if err := r.tryError(s.plan(c)); err != nil {
				// The guard takes what was not sent for no silence.
				if !errors.Is(err, locker.ErrSilent) {
					err = fmt.Errorf("%w: %w", locker.ErrUnsent, err)
				}
				return err
			}
		}
		if err = r.send(ctx, parts, changes); !noLease(err) {
			break
		}
		for session, id := range s.leases {
			session.lost(id)
		}
	}
	return r.tryError(err)
}

// step plans what one request does.
type step struct {
	*rows
	*part // that is planned

	ctx    context.Context               //nolint:containedctx // of one call
	leases map[*session]clientv3.LeaseID // that it writes under
}

// part is a Change as a transaction.
type part struct {
	ifs       []clientv3.Cmp
	then, els []clientv3.Op
	must      []string // processes whose pulses are compared
}

// nested returns ops in transactions of their own if there is no room for them
// side by side.
func nested(ops []clientv3.Op, room int) []clientv3.Op {
	if len(ops) <= room {
		return ops
	}
	var all []clientv3.Op
	for some := range slices.Chunk(ops, opsMax/4) {
		all = append(all, clientv3.OpTxn(nil, some, nil))
	}
	return all
}

// send carries out the parts, and notes in each change how it went.
func (r *rows) send(ctx context.Context, parts []part, changes []*rowlocker.Change) error {
	p := parts[0]
	p.then = nested(p.then, opsMax)
	if len(parts) > 1 {
		p = part{}
		for _, one := range parts {
			p.then = append(p.then, clientv3.OpTxn(one.ifs, nested(one.then, opsMax-len(parts)), one.els))
		}
	}
	answer, err := r.txn(ctx, p.ifs, p.then, p.els)
	if err != nil {
		return err
	}
	for i, c := range changes {
		in := answer
		if len(changes) > 1 {
			t := answer.Responses[i].GetResponseTxn()
			in = &clientv3.TxnResponse{Succeeded: t.Succeeded, Responses: t.Responses}
		}
		c.Done, c.Version, c.Current, c.Dead = in.Succeeded, answer.Header.Revision, nil, nil
		if c.Done {
			continue
		}
		if c.Join != nil {
			c.Current = append(c.Current, r.rowOf(c.Join.Key, in.Responses[0]))
		}
		for n, row := range c.Rows {
			c.Current = append(c.Current, r.rowOf(row.Key, in.Responses[n]))
		}
		for n, instance := range parts[i].must {
			if in.Responses[len(c.Rows)+n].GetResponseRange().Count == 0 {
				c.Dead = append(c.Dead, instance)
			}
		}
	}
	return nil
}

// plan fills in the part for a change.
func (s *step) plan(c *rowlocker.Change) error {
	if c.Join != nil {
		return s.join(c.Join)
	}
	for i := range c.Rows {
		if err := s.write(&c.Rows[i]); err != nil {
			return err
		}
	}
	for _, m := range c.Tell {
		if m.Must {
			pulse := s.pulseKey(m.To)
			s.ifs, s.must = append(s.ifs, exists(pulse)), append(s.must, m.To)
			s.els = append(s.els, clientv3.OpGet(pulse, clientv3.WithCountOnly()))
		}
		row := &c.Rows[m.Row]
		value := string(row.Value)
		if len(value) > messageMax {
			value = ""
		}
		// The row may stay for years.
		if err := s.put(s.inbox(m.To)+row.Key+"}", value, locker.QueueLife); err != nil {
			return err
		}
	}
	return nil
}

// put writes a key that stays for that long at least.
func (s *step) put(key, value string, keep time.Duration) error {
	return s.putUnder(s.sessionFor(keep), min(keep, longest), key, value)
}

func (s *step) putUnder(session *session, need time.Duration, key, value string) error {
	lease, err := session.lease(s.ctx, need)
	if err != nil {
		return err
	}
	s.leases[session] = lease
	s.then = append(s.then, clientv3.OpPut(key, value, clientv3.WithLease(lease)))
	return nil
}

// write writes a row.
func (s *step) write(row *rowlocker.Row) error {
	key := s.rowKey(row.Key)
	if row.Version == rowlocker.Any {
		s.els = append(s.els, clientv3.OpGet(key, clientv3.WithCountOnly())) // nobody asks for its value
	} else {
		s.ifs = append(s.ifs, s.unchanged(row)...)
		s.els = append(s.els, s.get(row.Key))
	}
	for _, t := range row.Drop {
		s.then = append(s.then, clientv3.OpDelete(s.ticketKey(row.Key, t.Name)))
	}
	if row.Value != nil && isFirst(row) {
		s.unmark(row)
	}
	for _, m := range row.Marks {
		if err := s.mark(row.Key, m); err != nil {
			return err
		}
	}
	if row.Value == nil {
		s.then = append(s.then, clientv3.OpDelete(key))
		return nil
	}
	end := row.Tag
	if row.RecordFor > 0 {
		end = recorded
		if err := s.put(s.keptKey(row.Key), "", row.RecordFor); err != nil {
			return err
		}
	}
	if row.HeldFor > 0 && row.KeepFor-row.HeldFor > locker.QueueLife {
		end += stays
		if err := s.put(s.ownedKey(row.Key), "", row.HeldFor); err != nil {
			return err
		}
	}
	row.Value = append(slices.Clip(row.Value), end...) // also for messages
	row.Tag = strings.TrimSuffix(end, stays)
	return s.put(key, string(row.Value), row.KeepFor)
}

// mark says that a claim owns a key beside others, or no longer.
func (s *step) mark(key string, m rowlocker.Mark) error {
	if m.KeepFor > 0 {
		return s.put(s.markKey(key, m.Owner), "", m.KeepFor)
	}
	s.then = append(s.then, clientv3.OpDelete(s.markKey(key, m.Owner)))
	return nil
}

// unmark deletes the marks of those who have owned a key that nobody owns now.
// They may end a little later than the row. etcd takes no key twice in a
// transaction, so the new ones are left out.
func (s *step) unmark(row *rowlocker.Row) {
	all := s.markKey(row.Key, "")
	from := all
	marks := slices.SortedFunc(slices.Values(row.Marks), func(a, b rowlocker.Mark) int {
		return strings.Compare(a.Owner, b.Owner)
	})
	for _, m := range marks {
		key := s.markKey(row.Key, m.Owner)
		s.then = append(s.then, clientv3.OpDelete(from, clientv3.WithRange(key)))
		from = key + "\x00"
	}
	s.then = append(s.then, clientv3.OpDelete(from, clientv3.WithRange(clientv3.GetPrefixRangeEnd(all))))
}

// join puts a ticket beside a row, replaces it, or takes it away.
func (s *step) join(j *rowlocker.Join) error {
	key, ticket := s.rowKey(j.Key), s.ticketKey(j.Key, j.Name)
	s.els = append(s.els, s.get(j.Key))
	if !j.Open {
		s.ifs = append(s.ifs, clientv3.Compare(clientv3.Value(key), ">", "0")) // an owner id, see lockerkit.NewID
		if err := s.putUnder(s.places, placeNeed, ticket, string(j.Value)); err != nil || j.To == "" {
			return err
		}
		return s.putUnder(s.places, placeNeed, s.inbox(j.To)+j.Key+"}", ticketMark+j.Name+"/"+string(j.Value))
	}
	s.ifs = append(s.ifs, begins(key, "!")...)
	if j.Held {
		s.ifs = append(s.ifs, exists(ticket))
	}
	mark := rowlocker.Mark{Owner: j.Name[strings.LastIndexByte(j.Name, '.')+1:], KeepFor: j.KeepFor}
	if j.Leave {
		mark.KeepFor = 0
		s.then = append(s.then, clientv3.OpDelete(ticket))
		return s.mark(j.Key, mark)
	}
	return errors.Join(s.mark(j.Key, mark), s.put(ticket, string(j.Value), j.KeepFor))
}
