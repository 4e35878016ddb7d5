package redlock

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// vote is a node's answer.
type vote struct {
	seat   int
	answer locker.Answer
	err    error
	probe  bool // sent to a node that did not answer before
}

// tally is a count of votes.
type tally struct {
	locker *Locker

	ours    []int  // indices of seats
	token   uint64 // the highest token of these seats
	held    int    // number of nodes held by others
	others  map[voter]standing
	places  []locker.Place
	refused []error // errors that will not change
	unknown []error

	pending, probes int // requests under way
}

// standing has the votes of one other voter.
type standing struct {
	votes     int
	holder    locker.Holder
	remaining time.Duration
}

func newTally(l *Locker) *tally { return &tally{locker: l} }

func (v *tally) count(of vote) {
	a, err := of.answer, of.err
	switch {
	case err != nil:
		err = v.locker.nodes[of.seat].of(err)
		if errors.Is(err, locker.ErrUnavailable) || errors.Is(err, locker.ErrClosed) {
			v.unknown = append(v.unknown, err)
		} else {
			v.refused = append(v.refused, err)
		}
	case a.Acquired:
		v.ours, v.token = append(v.ours, of.seat), max(v.token, a.Token)
	default:
		v.held++
		if v.others == nil {
			v.others = make(map[voter]standing, 1)
		}
		who := voterOf(a.Holder)
		s := v.others[who]
		v.others[who] = standing{s.votes + 1, a.Holder, max(s.remaining, a.Remaining)}
		if a.Queued {
			v.places = append(v.places, a.Place)
		}
	}
}

// wait counts requests. n is 1 for a request that was sent and -1 for its
// answer.
func (v *tally) wait(probe bool, n int) {
	if probe {
		v.probes += n
	} else {
		v.pending += n
	}
}

// decided reports whether more answers cannot matter. A node that did not
// answer before is waited for only if there is no quorum without it.
func (v *tally) decided() bool {
	ours, left, quorum := len(v.ours), v.pending+v.probes, v.locker.quorum
	switch {
	case ours >= quorum || left == 0:
		return true
	case v.reached():
		return ours+left < quorum || v.pending == 0
	}
	return ours+v.held+left < quorum
}

// reached reports whether a quorum has answered.
func (v *tally) reached() bool { return len(v.ours)+v.held >= v.locker.quorum }

// leads reports whether self is in the lead while nobody has a quorum.
func (v *tally) leads(self voter, quorum int) bool {
	for w, s := range v.others {
		if s.votes >= quorum || s.votes > len(v.ours) || s.votes == len(v.ours) && !self.before(w) {
			return false
		}
	}
	return len(v.ours) > 0 && v.reached()
}

// answer tells of the voter with the most votes, and of the median place.
func (v *tally) answer() (a locker.Answer) {
	most := 0
	for _, s := range v.others {
		if s.votes > most {
			most, a.Holder, a.Remaining = s.votes, s.holder, s.remaining
		}
	}
	if len(v.places) > 0 {
		slices.Sort(v.places)
		a.Place = v.places[(len(v.places)-1)/2]
	}
	return a
}

// answer is a node's answer to a request of a holder.
type answer[A any] struct {
	seat  int
	value A
	err   error
}

// agree reads the answers of all nodes until a quorum has done what was asked,
// or cannot do so any more. count is called for each node that has.
func agree[A any](ctx context.Context, l *Locker, answers <-chan answer[A], count func(A)) error {
	agreed, lost := 0, 0
	var unknown []error
	for range l.nodes {
		select {
		case a := <-answers:
			switch {
			case a.err == nil:
				agreed++
				count(a.value)
			case errors.Is(a.err, locker.ErrLeaseLost):
				lost++
			default:
				unknown = append(unknown, l.nodes[a.seat].of(a.err))
			}
		case <-ctx.Done():
			return unclear(context.Cause(ctx))
		}
		switch {
		case agreed == l.quorum:
			return nil
		case lost > len(l.nodes)-l.quorum:
			return errNotOwner
		}
	}
	return l.noQuorum(agreed+lost, 0, unknown)
}
