package contest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/judge"
)

const (
	onceRound = 2 * time.Second
	onceTTL   = 30 * time.Second // of a result; nobody asks for it as late as that
)

var errPlanned = errors.New("planned")

// ask makes one call of role once or payment. Every fifth is a plain call on the
// same key, and every twentieth function fails. Every second result is too long
// for a message.
func (w *Worker) ask(ctx context.Context, p plan, rnd *rand.Rand, rest time.Duration) error {
	l, ok := w.Locker.(Recording)
	if !ok {
		return errAlone
	}
	n, at := w.visits.Add(1), judge.Now()
	name := fmt.Sprintf("%s%d-%d", p.role, at/int64(onceRound), p.key)
	plain, fails := rnd.IntN(5) == 0, rnd.IntN(20) == 0
	if plain {
		if lease, err := w.Locker.Acquire(ctx, name, p.wait); err == nil {
			time.Sleep(min(p.work, w.TTL/2))
			_ = lease.Release(context.Background())
		}
		return nil
	}
	result := fmt.Sprintf("%-40s", fmt.Sprintf("%d.%d.%d", w.Proc, w.Life, n))
	if p.key%2 == 1 {
		result += strings.Repeat("x", 20_000)
	}
	var broken error
	note := func(kind string) {
		broken = cmp.Or(broken, w.Diary.Write(judge.Record{Kind: kind, N: n, Name: name, Asked: at, At: judge.Now()}))
	}
	atMostOnce := p.role == judge.Payment
	got, fresh, err := l.Once(ctx, name, p.wait, onceTTL, atMostOnce, func(context.Context) ([]byte, error) {
		note(judge.KindBegan)
		time.Sleep(p.work)
		switch {
		case fails && n%2 == 0:
			note(judge.KindUndone)
			return nil, guard.NothingDone(errPlanned)
		case fails:
			return nil, errPlanned
		}
		return []byte(result), nil
	})
	r := judge.Record{Kind: judge.KindResult, N: n, Name: name, Asked: at, At: judge.Now(), Fresh: fresh}
	if err != nil {
		r.Err = err.Error()
		time.Sleep(rest)
	} else {
		r.Result, _, _ = strings.Cut(string(got), " ")
	}
	return cmp.Or(broken, w.Diary.Write(r))
}
