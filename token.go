package guard

import (
	"context"
	"errors"
)

// token returns the fencing token of l's turn: the turn's place in the block that was reserved in this turn or an
// earlier one. Only the turn itself fetches a block, one at a time, so that a number can neither repeat nor fall behind.
func (gr *grant) token(ctx context.Context, l *Lease) (uint64, error) {
	for {
		token, fetching, err := gr.reserved(l)
		if err != nil || token != 0 {
			return token, err
		}
		if fetching != nil { // another caller of this turn, or a late one of a turn before
			select {
			case <-fetching:
				continue
			case <-ctx.Done():
				return 0, context.Cause(ctx)
			}
		}
		if err := gr.fetch(ctx, l); err != nil {
			return 0, err
		}
	}
}

// reserved returns l's token if there is one, or the fetch to wait for. If all it returns is zero, the caller fetches.
func (gr *grant) reserved(l *Lease) (token uint64, fetching <-chan struct{}, err error) {
	gr.mu.Lock()
	defer gr.mu.Unlock()
	if err := gr.errLocked(l); err != nil {
		return 0, nil, err
	}
	if i := l.number - gr.blockTurn; gr.block != 0 && i < FenceBlock {
		return gr.block + uint64(i), nil, nil
	}
	if gr.fetching != nil {
		return 0, gr.fetching, nil
	}
	gr.fetching = make(chan struct{})
	return 0, nil, nil
}

// fetch reserves a block for l's turn. A block that comes after the turn has ended is thrown away.
func (gr *grant) fetch(ctx context.Context, l *Lease) error {
	ctx, cancel := context.WithTimeout(ctx, tryLimit(gr.terms.ttl))
	defer cancel()
	block, err := gr.family.locker.Fence(ctx, gr.claim)

	gr.mu.Lock()
	close(gr.fetching)
	gr.fetching = nil
	if err == nil && gr.turn == l && gr.cause == nil {
		gr.block, gr.blockTurn = block, l.number
	}
	gr.mu.Unlock()

	if errors.Is(err, ErrLeaseLost) {
		gr.lose(ErrLeaseLost)
	}
	return err
}
