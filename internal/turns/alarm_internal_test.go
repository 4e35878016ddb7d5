package turns

import (
	"testing"
	"time"

	"github.com/go-lockguard/guard/locker"
)

// The whole machine: the state after each event in each state.
func TestAnAlarmKnowsWhatIsNext(t *testing.T) {
	later := time.Now().Add(time.Hour)
	names := [...]string{due: "due", trying: "trying", rewoken: "rewoken", asleep: "asleep", offered: "offered"}
	o := locker.Offer{Token: 7, Waiting: 3}
	events := map[string]func(*alarm){
		"begin": (*alarm).begin,
		"sleep": func(a *alarm) { a.sleep(later) },
		"wake":  func(a *alarm) { a.wake(later) },
		"grant": func(a *alarm) { a.grant(o) },
		"take":  func(a *alarm) { a.take() },
	}
	for _, c := range []struct {
		from                            alarmState
		begin, sleep, wake, grant, take alarmState
	}{
		{from: due, begin: trying, sleep: asleep, wake: due, grant: offered, take: due},
		{from: trying, begin: trying, sleep: asleep, wake: rewoken, grant: offered, take: trying},
		{from: rewoken, begin: trying, sleep: asleep, wake: rewoken, grant: offered, take: rewoken},
		{from: asleep, begin: trying, sleep: asleep, wake: asleep, grant: offered, take: asleep},
		{from: offered, begin: offered, sleep: offered, wake: offered, grant: offered, take: due},
	} {
		want := map[string]alarmState{
			"begin": c.begin, "sleep": c.sleep, "wake": c.wake,
			"grant": c.grant, "take": c.take,
		}
		for name, event := range events {
			a := alarm{state: c.from}
			event(&a)
			if a.state != want[name] {
				t.Errorf("%s in state %s leads to %s, want %s", name, names[c.from], names[a.state], names[want[name]])
			}
		}
	}
}

func TestAnAlarmGoesOffInTime(t *testing.T) {
	now := time.Now()
	var a alarm
	if d := a.left(now); d > 0 {
		t.Errorf("a fresh one waits %v", d)
	}
	a.begin()
	a.sleep(now.Add(time.Second))
	if d := a.left(now); d != time.Second {
		t.Errorf("%v are left, want 1s", d)
	}
	a.wake(now.Add(2 * time.Second))
	if d := a.left(now); d != time.Second {
		t.Errorf("%v are left after a wake-up for later, want 1s", d)
	}
	a.wake(now)
	if d := a.left(now); d > 0 {
		t.Errorf("%v are left after a wake-up", d)
	}
}

// A try that was sent before a wake-up is not the one that the wake-up is for,
// and one that begins after it is.
func TestAWakeUpIsOneTryThatBeginsAfterIt(t *testing.T) {
	now := time.Now()
	var a alarm
	a.begin()
	a.wake(now.Add(time.Second))
	a.wake(now.Add(2 * time.Second))
	a.sleep(now.Add(time.Hour))
	if d := a.left(now); d != time.Second {
		t.Errorf("%v are left after the try that was under way, want 1s", d)
	}
	a.begin()
	a.sleep(now.Add(time.Hour))
	if d := a.left(now); d != time.Hour {
		t.Errorf("%v are left after the try, want 1h", d)
	}
}

func TestAnOfferIsTakenOnce(t *testing.T) {
	var a alarm
	a.begin()
	a.grant(locker.Offer{Token: 7, Waiting: 3})
	a.sleep(time.Now().Add(time.Hour)) // the try that was under way saw the key held
	if o, ok := a.take(); !ok || o != (locker.Offer{Token: 7, Waiting: 3}) {
		t.Errorf("took %v, %t", o, ok)
	}
	if o, ok := a.take(); ok {
		t.Errorf("took %v again", o)
	}
}
