package main

import (
	"fmt"
	"time"
)

// visit is what became of one call, as the parent knows it: an entry, and whose it was.
type visit struct {
	proc, life, caller int // life counts the workers that this place had
	outcome            outcome
	key                int
	asked, bound       int64
	began, until       int64
	ended              int64
	token, broken      int64
	read, wrote        int64
	wroteAt            int64
	killed             bool // the worker died in the section
}

type outcome int

const (
	ran       outcome = iota // a section, which held its lease when it began
	late                     // a section whose lease had ended before it began
	held                     // ErrNotAcquired: somebody else held the key
	refused                  // ErrQueueFull
	noAnswer                 // ErrUnavailable
	cancelled                // the caller's ctx ended
	closed                   // ErrClosed
	cutShort                 // the worker died in the wait
	outcomes
)

func (o outcome) String() string {
	return [...]string{"ran", "late", "held", "refused", "no answer", "cancelled", "closed", "cut short"}[o]
}

// What a section can find wrong by itself.
const (
	otherToken int64 = 1 << iota // a call inside it got another token
	lostEarly                    // its lease was lost before its deadline
)

// end is until when v alone may have held the key: no longer than its lease could be trusted.
func (v visit) end() int64 { return max(v.began, min(v.ended, v.until)) }

func (v visit) who() string { return fmt.Sprintf("%d.%d/%d", v.proc, v.life, v.caller) }

func (v visit) String() string {
	s := fmt.Sprintf("%s key %d %v: asked %s, began %s", v.who(), v.key, v.outcome, clock(v.asked), clock(v.began))
	if v.outcome == ran {
		s += fmt.Sprintf(", ended %s, trusted to %s, token %d, read %d, wrote %d", clock(v.ended), clock(v.until), v.token, v.read, v.wrote)
		if v.wrote != 0 {
			s += " by " + clock(v.wroteAt)
		}
		if v.killed {
			s += ", killed"
		}
	}
	return s
}

func clock(ns int64) string { return time.Unix(0, ns).UTC().Format("15:04:05.000000") }
