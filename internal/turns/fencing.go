package turns

import (
	"context"
	"errors"

	"github.com/go-lockguard/guard/internal/limits"
	"github.com/go-lockguard/guard/locker"
)

// tokens are the fencing tokens of a grant: a block, with one token for each
// turn from the turn on in which the block was reserved. The grant's mutex
// guards them.
type tokens struct {
	block    uint64        // the first; 0: none
	turn     int           // the turn that it belongs to
	fetching chan struct{} // closed when a block is answered; nil: no fetch is in flight
}

// of returns the token of the turn with the given number, or 0.
func (b *tokens) of(number int) uint64 {
	if i := number - b.turn; b.block != 0 && i < locker.FenceBlock {
		return b.block + uint64(i)
	}
	return 0
}

// token returns the fencing token of t, which is its place in the block that
// was reserved in its turn or an earlier one. Only the turn itself fetches a
// block, one at a time, so a number can neither repeat nor fall behind.
func (gr *grant) token(ctx context.Context, t *Turn) (uint64, error) {
	for {
		token, fetching, err := gr.reserved(t)
		if err != nil || token != 0 {
			return token, err
		}
		if fetching != nil { // by another caller of this turn, or a late one of a turn before
			select {
			case <-fetching:
				continue
			case <-ctx.Done():
				return 0, context.Cause(ctx)
			}
		}
		if err := gr.fetch(ctx, t); err != nil {
			return 0, err
		}
	}
}

// reserved returns t's token if there is one, or the fetch to wait for. If all
// results are zero, the caller fetches.
func (gr *grant) reserved(t *Turn) (token uint64, fetching <-chan struct{}, err error) {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	if err := gr.errLocked(t); err != nil {
		return 0, nil, err
	}
	if token := gr.tokens.of(t.number); token != 0 {
		return token, nil, nil
	}
	if gr.tokens.fetching != nil {
		return 0, gr.tokens.fetching, nil
	}
	gr.tokens.fetching = make(chan struct{})
	return 0, nil, nil
}

// fetch reserves a block for t. A block that comes after the end of the turn is
// thrown away.
func (gr *grant) fetch(ctx context.Context, t *Turn) error {
	e := gr.gate.engine
	block, err := e.locker.Fence(e.bounded(ctx, limits.Try(gr.bid.terms.ttl)), &gr.bid.claim)

	gr.mu.Lock()
	close(gr.tokens.fetching)
	gr.tokens.fetching = nil
	if err == nil && t.listed && gr.cause == nil {
		gr.tokens.block, gr.tokens.turn = block, t.number
	}
	gr.mu.Unlock()

	if errors.Is(err, locker.ErrLeaseLost) {
		err = gr.taken(err)
		gr.lose(err)
	}
	return err
}
