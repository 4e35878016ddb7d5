package show

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"time"
)

// Marks of the timeline, the more telling ones last: they win where several
// fall into one column.
const (
	markSoldOut = '.'
	markSold    = '|'
	markInStep  = '#'
	markHalted  = 'z'
	markLate    = 'X'
)

const markOrder = " .|#zX"

// timelineWidth is how wide a lane gets where there is room.
const timelineWidth = 64

const timelineMargin = 4 + 7 // left of a lane

// timeline keeps what the instances did and when. A nil one keeps nothing. Safe
// for concurrent use.
type timeline struct {
	mu    sync.Mutex // guards spans
	spans []span
}

type span struct {
	lane     string // name of the instance
	from, to time.Time
	mark     byte
}

func (t *timeline) add(lane string, from, to time.Time, mark byte) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.spans = append(t.spans, span{lane, from, to, mark})
}

// print draws one lane per instance.
func (t *timeline) print(con *console, fleet []*instance) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.spans) == 0 {
		return
	}
	began, ended := t.spans[0].from, t.spans[0].to
	for _, s := range t.spans {
		if s.from.Before(began) {
			began = s.from
		}
		if s.to.After(ended) {
			ended = s.to
		}
	}
	width := max(1, min(timelineWidth, con.width-timelineMargin))
	step := ended.Sub(began)/time.Duration(width) + 1
	for _, in := range fleet {
		con.printf("    %-7s%s\n", in.name, con.paintLane(t.lane(in.name, began, step, width)))
	}
	end := fmt.Sprintf("%d ms", ended.Sub(began).Milliseconds())
	con.printf("    %-7s0%*s\n", "", width-1, end)
}

// lane draws one lane. A span fills the columns whose middle it covers, so that
// spans that do not overlap in time never share a column; a moment is shown
// wherever it falls. The caller holds the mutex.
func (t *timeline) lane(name string, began time.Time, step time.Duration, width int) []byte {
	lane := bytes.Repeat([]byte{' '}, width)
	for _, s := range t.spans {
		if s.lane != name {
			continue
		}
		from, to := s.from.Sub(began), s.to.Sub(began)
		first, last := int((from+step/2)/step), int((to-step/2)/step)
		if s.from.Equal(s.to) {
			first, last = int(from/step), int(from/step)
		}
		for i := max(first, 0); i <= min(last, width-1); i++ {
			if strings.IndexByte(markOrder, s.mark) > strings.IndexByte(markOrder, lane[i]) {
				lane[i] = s.mark
			}
		}
	}
	return lane
}
