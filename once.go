package guard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-lockguard/guard/internal/errnote"
	"github.com/go-lockguard/guard/internal/turns"
	"github.com/go-lockguard/guard/locker"
)

// Once runs fn while it holds key, as [Guard.Do] does, and keeps fn's result
// for ttl. A later call gets the result instead of running fn, in one round
// trip. A call that waits for key gets it when it is there. A nil g is the
// default guard. From Go 1.27 on Once is a method too.
//
// fn runs at most once per key and ttl, as long as no process dies inside fn,
// no lease on key is lost, no failover loses the result, and the store keeps
// its keys. After a crash inside fn, or an error of fn, the next call runs fn.
// Under [WithAtMostOnce] it gets ErrInterrupted instead. An error that [Final]
// made is kept like a result. fn may keep either for another time by [KeepFor].
//
// If fn did not run here and nothing was kept, the error is one of those of Do.
// It may also be ErrOtherPayload, ErrResultGone or ErrInterrupted. If fn ran,
// its result comes beside the error: fn's own, ErrNotRecorded, ErrLeaseLost or
// ErrMaxHold. After the last two nothing is kept, and another call may have run
// fn too. Once returns ErrInvalidOption inside a lease on the same key, with
// WithMinHold, WithShared or WithPermits, and for a ttl below 1 ms or above
// locker.MaxRecordTTL, which is 100 years. It Is errors.ErrUnsupported if the
// store keeps no results. [WithFailOpen] applies only with [OnceToo].
func Once[T any](ctx context.Context, g *Guard, key string, ttl time.Duration,
	fn func(context.Context) (T, error),
) (T, error) {
	var result, none T
	g, err := g.toRun(fn == nil)
	if err != nil {
		return none, err
	}
	r, err := g.once(ctx, key, OnceOptions{TTL: ttl}, func(ctx context.Context) (output, error) {
		var err error
		if result, err = fn(ctx); err != nil {
			return output{}, err
		}
		return g.encode(recordResult, result)
	})
	switch {
	case r.Fresh:
		return result, err
	case err != nil:
		return none, err
	}
	if err := g.codec.Unmarshal(r.Record, &result); err != nil {
		return none, fmt.Errorf("%w: the codec: %w", ErrResultGone, err)
	}
	return result, nil
}

// OnceOptions are the settings of one [Guard.OnceBytes].
type OnceOptions struct {
	// TTL is how long the result is kept, from the end of fn. It is 1 ms to
	// locker.MaxRecordTTL. fn may change it by [KeepFor].
	TTL time.Duration
	// Fingerprint tells requests apart that have the same key. It is at most 32
	// bytes, such as the start of a hash. A call whose fingerprint differs from
	// that of the result gets ErrOtherPayload.
	Fingerprint []byte
}

// OnceResult is what [Guard.OnceBytes] returns.
type OnceResult struct {
	Record []byte // what fn returned, here or in the call that ran it
	Fresh  bool   // fn ran in this call
	Joined bool   // this call waited for the result of another one
}

// OnceBytes is [Once] for bytes. It says whether fn ran in this call. If fn
// returns nil without an error, nothing is kept, and the next call runs fn.
// Under [WithAtMostOnce] such a nil is like an error of fn. Errors are those of
// Once.
func (g *Guard) OnceBytes(ctx context.Context, key string, o OnceOptions,
	fn func(context.Context) ([]byte, error),
) (OnceResult, error) {
	g, err := g.toRun(fn == nil)
	if err != nil {
		return OnceResult{}, err
	}
	return g.once(ctx, key, o, func(ctx context.Context) (output, error) {
		payload, err := fn(ctx)
		if payload == nil || err != nil {
			return output{}, err
		}
		return output{recordResult, payload}, nil
	})
}

// once is OnceBytes for a function that says what is to be kept. g is resolved.
func (g *Guard) once(ctx context.Context, key string, o OnceOptions, fn func(context.Context) (output, error),
) (r OnceResult, err error) {
	if err := g.checkOnce(ctx, key, o); err != nil {
		return OnceResult{}, err
	}
	keeping, p := &keeping{}, g.patience()
	keeping.ttl.Store(o.TTL.Milliseconds())
	p.Recall = &keeping.recall
	if !g.onceToo || g.atMostOnce {
		g = g.closed()
	}
	l, err := g.acquire(ctx, key, p, nil)
	if err == nil {
		err = g.begin(ctx, l, p.Recall, o.Fingerprint, o.TTL)
	}
	switch {
	case errors.Is(err, turns.ErrRecorded):
		return g.replay(p.Recall, o.Fingerprint)
	case err != nil:
		return OnceResult{}, err
	}
	r.Fresh = true
	l.keeping = keeping
	err = l.run(ctx, func(ctx context.Context) error {
		defer keeping.over.Store(true)
		m, err := fn(ctx)
		r.Record = m.payload
		m, err = g.finish(m, err)
		return l.keep(ctx, m, o.Fingerprint, err)
	})
	if !l.bare && l.turn.Keeps() && !l.turn.Recorded() && !errors.Is(err, ErrLeaseLost) {
		err = errors.Join(fmt.Errorf("%w: the store did not confirm it", ErrNotRecorded), err)
	}
	if errnote.Is(err, errnote.NothingDone(true)) {
		err = errnote.With(err, errnote.NothingDone(false)) // a function around this call may have done something
	}
	return r, err
}

// encode returns what is to be kept of v. If the codec fails, that is only that
// there was a result, and the error is ErrNotRecorded.
func (g *Guard) encode(kind byte, v any) (output, error) {
	payload, err := g.codec.Marshal(v)
	if err != nil {
		return output{kind: recordGone}, fmt.Errorf("%w: the codec: %w", ErrNotRecorded, err)
	}
	return output{kind, payload}, nil
}

// finish makes a final error of fn what is to be kept. If fn has left m, err is
// that of the codec.
func (g *Guard) finish(m output, err error) (output, error) {
	final := (*FinalError)(nil)
	if m.kind != 0 || !errors.As(err, &final) {
		return m, err
	}
	m, bad := g.encode(recordFinal, finalRecord{final.Code, final.Text})
	if bad != nil {
		err = errors.Join(bad, err)
	}
	return m, err
}

// replay reads the record that a call got in place of its turn.
func (g *Guard) replay(recall *turns.Recall, mark []byte) (OnceResult, error) {
	record, joined := recall.Found()
	r := OnceResult{Joined: joined}
	m, err := decodeRecord(record, mark)
	if err != nil {
		return r, err
	}
	if m.kind == recordResult {
		r.Record = m.payload
		return r, nil
	}
	var final finalRecord
	if err := g.codec.Unmarshal(m.payload, &final); err != nil {
		return r, fmt.Errorf("%w: the codec: %w", ErrResultGone, err)
	}
	return r, &FinalError{Code: final.Code, Text: final.Text}
}

// checkOnce refuses a call that cannot keep a result.
func (g *Guard) checkOnce(ctx context.Context, key string, o OnceOptions) error {
	if ctx == nil {
		return errNilContext
	}
	if !g.family.locker.Capabilities().Records {
		return errNoRecords
	}
	var bad string
	switch {
	case o.TTL < time.Millisecond, o.TTL > locker.MaxRecordTTL:
		bad = fmt.Sprintf("a result is kept for %v, want 1ms to %v", o.TTL, locker.MaxRecordTTL)
	case len(o.Fingerprint) > maxFingerprint:
		bad = fmt.Sprintf("a fingerprint of %d bytes, want at most %d", len(o.Fingerprint), maxFingerprint)
	case g.minHold > 0:
		bad = "Once with WithMinHold: the result keeps others out by itself"
	case g.atMostOnce && g.set.MaxHold == 0:
		bad = "WithAtMostOnce without MaxHold: the mark must outlast the function"
	case g.set.Limit != 0:
		bad = "Once with WithShared or WithPermits: it takes its key exclusively"
	case findLease(leaseIn(ctx), g.family, key) != nil:
		bad = "Once inside a lease on the same key"
	default:
		return nil
	}
	return invalid("%s", bad)
}

var errNoRecords = unsupported("this locker keeps no results")

// Forget deletes the result that [Once] has kept for key, and reports whether
// there was one. The next call runs its function. A call that runs meanwhile is
// not disturbed, and keeps its result. Forget blocks for two requests, at most
// until ctx ends. Its errors are ErrUnavailable, which wraps the store's error,
// ErrClosed, ErrInvalidKey, ErrNoDefault, and ErrInvalidOption if the store
// keeps no results.
func (g *Guard) Forget(ctx context.Context, key string) (forgot bool, err error) {
	err = g.visit(ctx, func(g *Guard) error {
		if err := checkName(key); err != nil {
			return err
		}
		store := g.family.locker
		if !store.Capabilities().Records {
			return errNoRecords
		}
		var err error
		forgot, err = store.Forget(ctx, storeName(key))
		return known(err)
	})
	return forgot, err
}

// KeepFor says how long the result of the innermost function of [Once] in ctx
// is kept, in place of the ttl of the call. The function calls it when it knows
// that, such as from the expiry of a token. d counts from the end of the
// function, in whole milliseconds. 0 keeps nothing, so that the next call runs
// its function. Of several calls the last one counts.
//
// A d that is negative or above locker.MaxRecordTTL is ErrInvalidOption. Then
// nothing is kept either, and Once returns that error as an ErrNotRecorded
// beside the result. KeepFor returns ErrNoLease if ctx is not that of a
// function of Once that runs, and ErrInvalidOption if ctx is nil. It does not
// block, and is safe for concurrent use.
//
// Errors are not kept, whatever d is, but for those of [Final]. Under
// [WithAtMostOnce] the ttl of the call still counts for the mark.
func KeepFor(ctx context.Context, d time.Duration) error {
	if ctx == nil {
		return errNilContext
	}
	for l := leaseIn(ctx); l != nil; l = l.enclosing {
		switch {
		case l.keeping == nil:
		case l.keeping.over.Load(): // d is not for a function of Once around it
			return errNotInOnce
		default:
			return l.keeping.set(d)
		}
	}
	return errNotInOnce
}

var errNotInOnce = fmt.Errorf("%w: KeepFor outside of a function of Once", ErrNoLease)

// keep makes the release of l keep m, which its function has left beside err.
// keep returns the error of the call.
func (l *Lease) keep(ctx context.Context, m output, mark []byte, err error) error {
	k, g := l.keeping, l.guard
	ttl := k.ttl.Load()
	switch {
	case m.kind == 0 && !errnote.Is(err, errnote.NothingDone(true)):
		return err
	case m.kind != 0 && ttl < 0:
		return errors.Join(fmt.Errorf("%w: %w", ErrNotRecorded, errKeepFor), err)
	case l.bare:
	case m.kind != 0 && ttl > 0:
		k.recall.Keep(g.record(ctx, m, mark, time.Duration(ttl)*time.Millisecond), true)
	case g.atMostOnce:
		l.turn.Unmark()
	}
	return err
}
