package redisconn

import (
	"context"
	"errors"
	"io"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

func TestOnlyADialThatTookItsTimeIsMute(t *testing.T) {
	for _, c := range []struct {
		err         error
		took, limit time.Duration
		want        bool
	}{
		{os.ErrDeadlineExceeded, dialLimit, dialLimit, true},
		{context.DeadlineExceeded, dialLimit + 90*time.Millisecond, dialLimit, true},
		{context.DeadlineExceeded, dialLimit + 110*time.Millisecond, dialLimit, false}, // the process has slept
		{context.DeadlineExceeded, time.Second, dialLimit, false},                      // another limit
		{context.DeadlineExceeded, time.Second, time.Second, true},
		{context.DeadlineExceeded, 100 * time.Millisecond, 100 * time.Millisecond, false}, // too short for a far server
		{io.EOF, dialLimit, dialLimit, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			time.Sleep(c.took)
			err := mute(c.err, start, c.limit)
			if errors.Is(err, ErrMute) != c.want || !errors.Is(err, c.err) {
				t.Errorf("%v after %v of %v: %v, want ErrMute: %v", c.err, c.took, c.limit, err, c.want)
			}
		})
	}
}
