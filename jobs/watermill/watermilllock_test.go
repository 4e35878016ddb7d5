package watermilllock_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/components/delay"
	"github.com/ThreeDotsLabs/watermill/message"
	"go.uber.org/goleak"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/guardtest"
	"github.com/go-lockguard/guard/internal/jobguard/jobtest"
	watermilllock "github.com/go-lockguard/guard/jobs/watermill"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var quiet = guard.WithLogger(slog.New(slog.DiscardHandler))

func key(msg *message.Message) string { return guard.Key("order", msg.Metadata.Get("order")) }

func messageOf(ctx context.Context, order string) *message.Message {
	msg := message.NewMessage("id of "+order, nil)
	msg.Metadata.Set("order", order)
	msg.SetContext(ctx)
	return msg
}

func done(*message.Message) ([]*message.Message, error) { return nil, nil }

func never(t *testing.T) message.HandlerFunc {
	t.Helper()
	return func(*message.Message) ([]*message.Message, error) {
		t.Error("the handler ran")
		return nil, nil
	}
}

func TestAMessageThatHasNotBegunIsPutOff(t *testing.T) {
	g := guardtest.New(t, quiet)
	for name, refuse := range map[string]func() (mend func()){
		"held": func() func() { return g.Hold("order:7") },
		"down": g.Break,
	} {
		for _, opts := range [][]watermilllock.Option{nil, {watermilllock.WithDrop()}} {
			if name == "held" && opts != nil {
				continue // it is dropped
			}
			msg := messageOf(t.Context(), "7")
			mend := refuse()
			_, err := watermilllock.Key(g.Guard, key, opts...)(never(t))(msg)
			mend()
			ours := errors.Is(err, guard.ErrNotAcquired) || errors.Is(err, guard.ErrUnavailable)
			if !ours || watermilllock.IsFailure(err) {
				t.Errorf("%s: got %v, a failure: %t", name, err, watermilllock.IsFailure(err))
			}
			d, err := time.ParseDuration(msg.Metadata.Get(delay.DelayedForKey))
			if err != nil || d < time.Second || d > 91*time.Second {
				t.Errorf("%s: it comes back after %v, %v", name, d, err)
			}
		}
	}
	if watermilllock.IsFailure(nil) {
		t.Error("nil is a failure")
	}
}

func TestAMessageThatIsBackTooSoonWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guardtest.New(t, quiet)
		m := watermilllock.Key(g.Guard, key)
		began, tries := time.Now(), 0
		msg := messageOf(t.Context(), "7")
		release := g.Hold("order:7")
		for tries < 1000 && time.Since(began) < time.Minute { // a subscriber that sends it again at once
			if _, err := m(never(t))(msg); !errors.Is(err, guard.ErrNotAcquired) {
				t.Fatal(err)
			}
			tries++
			again := msg.Copy()
			again.SetContext(t.Context())
			msg = again
		}
		if tries > 60 {
			t.Errorf("%d tries in a minute", tries)
		}
		release()
		if _, err := m(done)(msg); err != nil {
			t.Error(err)
		}
		if len(msg.Metadata) != 1 {
			t.Errorf("the handler sees the delay in %v", msg.Metadata)
		}
	})
}

func TestAMessageThatWaitsForItsTimeEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guardtest.New(t, quiet)
		m := watermilllock.Key(g.Guard, key)
		ctx, cancel := context.WithCancel(t.Context())
		msg := messageOf(ctx, "7")
		g.Hold("order:7")
		_, _ = m(never(t))(msg)
		began := time.Now()
		cancel()
		if _, err := m(never(t))(msg); !errors.Is(err, context.Canceled) || time.Since(began) > 0 {
			t.Errorf("got %v after %v", err, time.Since(began))
		}
	})
}

func TestADelayOfThePublisherIsNotOurs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guardtest.New(t, quiet)
		msg := messageOf(t.Context(), "7")
		delay.Message(msg, delay.For(time.Hour))
		began := time.Now()
		if _, err := watermilllock.Key(g.Guard, key)(done)(msg); err != nil || time.Since(began) > 0 {
			t.Errorf("got %v after %v", err, time.Since(began))
		}
		if msg.Metadata.Get(delay.DelayedForKey) == "" {
			t.Error("it has lost its delay")
		}
	})
}

func TestADroppedMessageIsAckedAndTold(t *testing.T) {
	var log bytes.Buffer
	w := &jobtest.Waits{}
	g := guardtest.New(t, guard.WithLogger(slog.New(slog.NewTextHandler(&log, nil))), guard.WithName("orders"),
		guard.WithObserver(w))
	g.Hold("order:7")
	_, err := watermilllock.Key(g.Guard, key, watermilllock.WithDrop())(never(t))(messageOf(t.Context(), "7"))
	if err != nil {
		t.Errorf("got %v", err)
	}
	for _, part := range []string{
		"level=INFO", "message dropped", "guard=orders", "key_hash=" + guard.KeyHash("order:7"), `message="id of 7"`,
	} {
		if !strings.Contains(log.String(), part) {
			t.Errorf("the log lacks %q:\n%s", part, &log)
		}
	}
	if len(w.Errs) != 1 || !errors.Is(w.Errs[0], guard.ErrNotAcquired) {
		t.Errorf("the observer was told %v", w.Errs)
	}
}

func TestOnlyWhatIsDoneIsADuplicateWithMinHoldOnSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guardtest.New(t, quiet)
		once := g.With(guard.WithMinHold(time.Hour, guard.OnSuccess))
		m := watermilllock.Key(once, key, watermilllock.WithDrop())
		failed := errors.New("no money")
		fails := func(*message.Message) ([]*message.Message, error) { return nil, failed }
		_, err := m(fails)(messageOf(t.Context(), "7"))
		if !errors.Is(err, failed) {
			t.Errorf("got %v", err)
		}
		ran := 0
		for range 3 {
			_, err := m(func(*message.Message) ([]*message.Message, error) { ran++; return nil, nil })(
				messageOf(t.Context(), "7"))
			if err != nil {
				t.Error(err)
			}
			time.Sleep(20 * time.Minute)
		}
		if ran != 1 {
			t.Errorf("it ran %d times", ran)
		}
	})
}

func TestAHandlerThatRanIsAFailure(t *testing.T) {
	g := guardtest.New(t, quiet)
	made := message.Messages{message.NewMessage("made", nil)}
	for _, own := range []error{errors.New("no money"), guard.ErrNotAcquired} {
		msg := messageOf(t.Context(), "7")
		got, err := watermilllock.Key(g.Guard, key, watermilllock.WithDrop())(
			func(*message.Message) ([]*message.Message, error) { return made, own })(msg)
		if !errors.Is(err, own) || !watermilllock.IsFailure(err) || len(got) != 1 {
			t.Errorf("got %v, a failure: %t, %d messages", err, watermilllock.IsFailure(err), len(got))
		}
		if len(msg.Metadata) != 1 || msg.Context() != t.Context() {
			t.Errorf("left behind: %v, the context of the lease: %t", msg.Metadata, msg.Context() != t.Context())
		}
	}
	_, err := watermilllock.Key(g.Guard, key)(never(t))(messageOf(t.Context(), ""))
	if !errors.Is(err, guard.ErrInvalidKey) || !watermilllock.IsFailure(err) {
		t.Errorf("no key: got %v", err)
	}
}

func TestARefusalOfAKeyWithinIsNotOurs(t *testing.T) {
	g := guardtest.New(t, quiet)
	g.Hold("order:8")
	inner := watermilllock.Key(g.Guard, func(*message.Message) string { return "order:8" })(never(t))
	_, err := watermilllock.Key(g.Guard, key, watermilllock.WithDrop())(inner)(messageOf(t.Context(), "7"))
	if !errors.Is(err, guard.ErrNotAcquired) || watermilllock.IsFailure(err) {
		t.Errorf("got %v: the outer one drops only for its own key", err)
	}
}

func TestALostLeaseEndsTheMessageAndIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guardtest.New(t, quiet)
		made, err := watermilllock.Key(g.Guard, key)(func(msg *message.Message) ([]*message.Message, error) {
			g.Lose("order:7")
			<-msg.Context().Done()
			return message.Messages{msg}, nil
		})(messageOf(t.Context(), "7"))
		if !errors.Is(err, guard.ErrLeaseLost) || !watermilllock.IsFailure(err) || len(made) > 0 {
			t.Errorf("got %v, and %d messages to publish", err, len(made))
		}
	})
}

func TestAMessageMayWaitForItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guardtest.New(t)
		time.AfterFunc(10*time.Second, g.Hold("order:7"))
		m := watermilllock.Key(g.Guard, key, watermilllock.WithWait(time.Minute))
		if _, err := m(done)(messageOf(t.Context(), "7")); err != nil {
			t.Error(err)
		}
	})
}

func TestATimeBeyondMaxHoldIsToldOnce(t *testing.T) {
	var log bytes.Buffer
	g := guardtest.New(t, guard.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	m := watermilllock.Key(g.Guard, key)
	for _, limit := range []time.Duration{time.Minute, time.Hour, time.Hour} {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		if _, err := m(done)(messageOf(ctx, "7")); err != nil {
			t.Error(err)
		}
	}
	if n := strings.Count(log.String(), "longer than MaxHold"); n != 1 {
		t.Errorf("told %d times, want once:\n%s", n, &log)
	}
}
