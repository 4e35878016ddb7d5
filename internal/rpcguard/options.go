package rpcguard

import (
	"context"
	"time"

	"github.com/go-lockguard/guard/internal/httpguard"
)

// Settings are what options set.
type Settings struct {
	MaxWait time.Duration // of an adapter that limits waits

	// of [NewIdempotent] alone

	Identity httpguard.IdentityOptions[Call]
	Replayed func(context.Context) // called before each replay; nil: nobody is
}

// SettingsOf returns s changed by opts. SettingsOf panics if one is nil.
func SettingsOf[O Option](s Settings, opts []O) Settings {
	for _, o := range opts {
		httpguard.PanicIf(any(o) == nil, "an option is nil")
		o.apply(&s)
	}
	return s
}

type (
	// Option is an option of any rule.
	Option interface{ apply(s *Settings) }

	// IdempotentOption is an option of every adapter's Idempotent. Package
	// rpcopt declares it again for users.
	IdempotentOption interface {
		Option
		ofIdempotent()
	}

	// WaitOption is an option of all rules of an adapter that limits waits.
	WaitOption interface {
		Option
		ofWaits()
	}
)

// ForIdempotent returns an option of [NewIdempotent].
func ForIdempotent(f func(*Settings)) IdempotentOption { return setting(f) }

type setting func(*Settings)

func (f setting) apply(s *Settings) { f(s) }
func (setting) ofIdempotent()       {}

// MaxWait makes WithMaxWait.
func MaxWait(d time.Duration) WaitOption {
	httpguard.CheckMaxWait(d)
	return maxWait(d)
}

type maxWait time.Duration

func (d maxWait) apply(s *Settings) { s.MaxWait = time.Duration(d) }
func (maxWait) ofWaits()            {}

// Call is a call as the functions of an [httpguard.Identity] see it.
type Call struct {
	ctx              context.Context //nolint:containedctx // of the functions' calls alone
	request, message any
}

// ValueBy makes a function for calls of one that takes an M. ValueBy panics if
// f is nil.
func ValueBy[M any](f func(ctx context.Context, message M) (string, error)) func(Call) (string, error) {
	httpguard.PanicIf(f == nil, httpguard.NilKeyFunc)
	return func(c Call) (string, error) {
		m, ok := c.message.(M)
		if !ok {
			return "", WrongType(c.message)
		}
		return f(c.ctx, m)
	}
}
