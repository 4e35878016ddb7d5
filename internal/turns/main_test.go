package turns

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/go-lockguard/guard/locker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A party is a caller that hears the fate of its turns. It notes the last event
// of each kind.
type party struct {
	lost        error
	renewal     Renewal
	unconfirmed error
	news        []News
}

func (p *party) Lost(cause error)                        { p.lost = cause }
func (*party) HalfTime()                                 {}
func (*party) Traceparent(context.Context) string        { return "" }
func (p *party) Renewed(_ Occupant, _ string, r Renewal) { p.renewal = r }
func (p *party) Outage(_ context.Context, _ Occupant, _ string, n News) {
	p.news = append(p.news, n)
}
func (p *party) Unconfirmed(_ Occupant, err error) { p.unconfirmed = err }

// settings are the settings of the tests. Some tests change them.
func settings() Settings {
	return Settings{
		TTL: 10 * time.Second, MaxWait: 3 * time.Second,
		Backoff: Backoff{5 * time.Millisecond, 250 * time.Millisecond},
	}
}

// open opens an engine, which the test closes.
func open(t *testing.T, l locker.Locker) *Engine {
	t.Helper()
	e, err := Open(l)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// take takes a turn on key and attaches its occupant, as a lease does.
func (p *party) take(ctx context.Context, e *Engine, key string, s Settings) (*Turn, error) {
	t, now := &Turn{}, time.Now()
	if _, err := t.Take(ctx, e, key, &s, p, Patience{
		Start: now, Until: now.Add(s.MaxWait),
		Once: s.MaxWait == 0,
	}); err != nil {
		return nil, err
	}
	if err := t.Attach(p, time.Now()); err != nil {
		p.lost = err
	}
	return t, nil
}

// end ends a turn as a lease does.
func end(ctx context.Context, t *Turn) (err error) {
	defer t.Leave()
	back, err := t.End(true, true)
	if back {
		err = t.ReleaseKey(ctx)
	}
	return err
}
