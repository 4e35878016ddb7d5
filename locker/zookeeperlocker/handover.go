package zookeeperlocker

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/go-lockguard/guard/locker"
)

// What a hand-over tells the new owner of the queue, so that its own Release
// need not look.
const (
	namedMax = 32 // entries
	shownMax = 8  // of them with their values
)

// toldOf returns what the new owner is told of the queue behind it.
func toldOf(behind []queued) []queued {
	told := slices.Clone(behind[:min(len(behind), namedMax)])
	for i := shownMax; i < len(told); i++ {
		told[i].Value = nil
	}
	return told
}

// handover is one Release. Its transaction is made of what the releaser
// believes of owner node and queue, and compares that. If it is wrong, the next
// try is made of a look.
type handover struct {
	l          *Locker
	dir, owner string
	next       *locker.Claim
	nextState  *state
	nobodys    bool  // nobody owns the key
	node       int32 // version of the owner node, or noVersion
	view

	place locker.Place // of next in the present try; 0 if next is not queued
}

func (h *handover) run(ctx context.Context) (locker.Released, error) {
	for range maxTries {
		if err := h.learn(ctx); err != nil {
			return locker.Released{}, err
		}
		ops, err := h.plan()
		if err != nil {
			return locker.Released{}, err
		}
		r, err := h.l.multi(ctx, ops...)
		switch {
		case err != nil:
			return locker.Released{Queued: h.place > 0, Place: h.place}, err
		case r.refused == nil:
			return h.done(), nil
		}
		h.known = false
		if r.at < len(ops)-1 { // not the last, which compares the directory
			h.node = noVersion
		}
		if h.place > 0 {
			h.nextState.Unqueue()
		}
	}
	return locker.Released{}, errChanging
}

// learn looks at the queue if that is not known, and at the owner node if the
// look leaves a doubt. learn returns errNotOwner if there is nothing to hand
// over.
func (h *handover) learn(ctx context.Context) error {
	if h.known && (len(h.queue) == 0 || h.queue[0].Value != nil) {
		return nil
	}
	v, err := h.l.readQueue(ctx, h.dir)
	if err != nil {
		return err
	}
	h.view, h.nobodys = v, !v.held
	switch {
	case h.nobodys && len(v.queue)+len(v.badges) == 0:
		return errNotOwner
	case h.nobodys, h.node != noVersion && v.ofAlone(h.owner):
		return nil
	}
	n, err := h.l.get(ctx, h.dir+ownerNode)
	if err != nil {
		return err
	}
	h.node = noVersion
	if n.stat == nil { // it went meanwhile: the transaction fails, and the next try looks again
		return nil
	}
	if owner, _, _ := parse(n.value); owner != h.owner {
		return errNotOwner
	}
	h.node = n.stat.Version
	return nil
}

// plan makes the transaction of a try.
func (h *handover) plan() (ops []any, err error) {
	h.place = 0
	for _, owner := range h.badges {
		ops = append(ops, remove(h.dir+badgePrefix+owner))
	}
	if len(h.queue) == 0 {
		if !h.nobodys {
			ops = append(ops, removeVersion(h.dir+ownerNode, h.node))
		}
		return append(ops, unchanged(h.dir, h.version)), nil
	}
	var e entry
	if json.Unmarshal(h.queue[0].Value, &e) != nil || len(e.Owner) != locker.OwnerLen {
		return nil, errStrange
	}
	behind := h.queue[1:]
	if h.next != nil && !h.nobodys {
		tail := h.queueNext()
		ops = append(ops, h.l.create(h.dir+"/"+tail.Name, tail.Value, zk.FlagEphemeral))
		behind = append(slices.Clip(behind), tail)
	}
	r := e.Record
	r.TTL, r.Waiting, r.Version = e.Offer, len(behind), h.version+1
	r.Queue = toldOf(behind)
	value := ownerValue(e.Owner, r)
	if h.nobodys {
		ops = append(ops, h.l.create(h.dir+ownerNode, value, 0))
	} else {
		ops = append(ops, write(h.dir+ownerNode, value, h.node))
	}
	return append(ops,
		h.l.create(h.dir+badgePrefix+e.Owner, nil, 0),
		remove(h.dir+"/"+h.queue[0].Name),
		write(h.dir, nil, h.version)), nil
}

// queueNext returns the entry of next behind all others (law 9).
func (h *handover) queueNext() queued {
	h.place = max(locker.Place(h.zxid), placeOf(h.queue[len(h.queue)-1].Name)) + 1
	tail := queued{Name: entryName(h.place, h.zxid, h.next.Owner), Value: entryOf(h.next)}
	h.nextState.Queue(h.dir + "/" + tail.Name)
	return tail
}

// done is the result of a try that succeeded.
func (h *handover) done() locker.Released {
	if h.place > 0 {
		h.l.watchEntry(h.nextState)
	}
	n := len(h.queue)
	return locker.Released{Handed: n > 0, Waiting: n, Queued: h.place > 0, Place: h.place}
}
