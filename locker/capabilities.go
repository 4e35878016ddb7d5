package locker

import (
	"context"
	"errors"
	"iter"
)

// Capabilities say what a [Locker] can do beside what each can. The guard calls
// a method for something that a Locker cannot do only if that method says so.
type Capabilities struct {
	// Limits are the TTLs that the store can keep, and how late it ends leases.
	// guard.New and Guard.With refuse a TTL that the store cannot keep.
	Limits Limits

	Shares   bool // several claims own a key at once, see [Claim].Limit and laws 9 and 10
	Several  bool // the methods of Several do more than calls in a row
	Records  bool // the methods of Recorder, [Claim].Recall and [End].Record work, with laws 11 and 12
	Inspects bool // the methods of Inspector work
	// Lingers says that the processes can hear at once that others want their
	// keys. Only then do claims linger, see [Claim].Lingers and law 4.
	Lingers bool

	// Findings are the names that findings of Check can have. Then
	// guard.WithAcceptedFindings refuses others. Nobody changes them.
	Findings []string
}

// Unsupported has the methods of a [Locker] for what it cannot do. A Locker
// embeds an Unsupported and has methods of its own for the rest. Those of
// Unsupported that return an error return [errors.ErrUnsupported].
type Unsupported struct{}

// Listens reports false.
func (Unsupported) Listens() bool { return false }

// Node returns the same for each key.
func (Unsupported) Node(string) string { return "" }

// AcquireAll is that of [Several].
func (Unsupported) AcquireAll(context.Context, []*Claim, bool) ([]Answer, int, error) {
	return nil, 0, errors.ErrUnsupported
}

// ReleaseAll is that of [Several].
func (Unsupported) ReleaseAll(_ context.Context, cs []*Claim, _ []End, answered func(int, Released, error)) {
	for i := range cs {
		answered(i, Released{}, errors.ErrUnsupported)
	}
}

// Begin is that of [Recorder].
func (Unsupported) Begin(context.Context, *Claim, Record) (string, error) {
	return "", errors.ErrUnsupported
}

// Forget is that of [Recorder].
func (Unsupported) Forget(context.Context, string) (bool, error) { return false, errors.ErrUnsupported }

// Inspect is that of [Inspector].
func (Unsupported) Inspect(context.Context, string) (KeyState, error) {
	return KeyState{}, errors.ErrUnsupported
}

// List is that of [Inspector].
func (Unsupported) List(context.Context) iter.Seq2[KeyState, error] {
	return func(yield func(KeyState, error) bool) { yield(KeyState{}, errors.ErrUnsupported) }
}

// ForceRelease is that of [Inspector].
func (Unsupported) ForceRelease(context.Context, string, string) error { return errors.ErrUnsupported }
