package debug

import (
	_ "embed"
	"html/template"
	"strconv"
	"time"

	"github.com/go-lockguard/guard"
)

//go:embed page.html
var source string

var html = template.Must(template.New("page").Parse(source))

// page is the JSON of [Handler]. Its HTML is made from the same data. Times are
// in seconds.
type page struct {
	At     time.Time  `json:"at"`
	Keys   int        `json:"keys"` // in this process, shown or not
	Gates  []gate     `json:"gates"`
	Stacks bool       `json:"-"`
	Store  *storeView `json:"store,omitempty"`
}

// name is a key as it may be shown.
type name struct {
	Hash string `json:"key_hash"`
	Key  string `json:"key,omitempty"`
}

// gate is one key in this process.
type gate struct {
	name
	Holds   []hold  `json:"holds,omitempty"`
	Waiting int     `json:"waiting"`
	Waiters []wait  `json:"waiters,omitempty"`
	Blocker *peer   `json:"blocker,omitempty"`
	For     seconds `json:"blocked_for,omitempty"`
}

type hold struct {
	Name     string    `json:"guard"`
	Owner    string    `json:"owner"`
	Mode     string    `json:"mode,omitempty"` // shared or permits
	Since    time.Time `json:"since"`
	Held     seconds   `json:"held"`
	MaxHold  seconds   `json:"max_hold,omitempty"`
	Left     seconds   `json:"lease_left"`
	Cooldown bool      `json:"cooldown,omitempty"` // its function has returned (guard.WithMinHold)
	Idle     bool      `json:"idle,omitempty"`     // no function runs since Since (guard.WithLinger)
	Error    string    `json:"error,omitempty"`
	Stack    string    `json:"stack,omitempty"`
}

type wait struct {
	Name   string   `json:"guard"`
	Waited seconds  `json:"waited"`
	Left   *seconds `json:"wait_left,omitempty"` // nil: no limit, as in Lead
}

// peer is a process as the store knows it.
type peer struct {
	Host     string    `json:"host,omitempty"`
	PID      int       `json:"pid,omitempty"`
	Name     string    `json:"guard,omitempty"`
	Since    time.Time `json:"since,omitzero"`
	Instance string    `json:"instance,omitempty"`
}

type storeView struct {
	Keys  []storeKey `json:"keys"`
	More  bool       `json:"more,omitempty"` // there are more than limit
	Error string     `json:"error,omitempty"`
}

type storeKey struct {
	name
	Held      bool    `json:"held"`
	Owner     string  `json:"owner,omitempty"`
	Holder    *peer   `json:"holder,omitempty"`
	Lingers   bool    `json:"lingers,omitempty"` // no function may run there (guard.WithLinger)
	Shared    string  `json:"shared,omitempty"`  // in words, if several own it
	Limit     int     `json:"limit,omitempty"`   // of them, see [guard.KeyState]
	Owners    []owner `json:"owners,omitempty"`
	Remaining seconds `json:"remaining,omitempty"`
	Waiting   int     `json:"waiting"`
	Waiters   []*peer `json:"waiters,omitempty"`
	Result    *result `json:"result,omitempty"`
	Error     string  `json:"error,omitempty"`
}

// result is what guard.Once has kept for a key.
type result struct {
	Size int     `json:"size"` // bytes
	Left seconds `json:"left"`
	// Interrupted: it is no result, a call under guard.WithAtMostOnce left none.
	Interrupted bool `json:"interrupted,omitempty"`
}

// owner is one of several that own a key.
type owner struct {
	Owner  string `json:"owner"`
	Holder *peer  `json:"holder,omitempty"`
}

// seconds is a duration. JSON has it as a number of seconds, and people see it
// as Go writes it.
type seconds time.Duration

// MarshalJSON implements [json.Marshaler].
func (s seconds) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, time.Duration(s).Seconds(), 'f', 3, 64), nil
}

func (s seconds) String() string { return time.Duration(s).Round(time.Millisecond).String() }

func newPeer(h guard.Holder) *peer {
	if h == (guard.Holder{}) {
		return nil
	}
	return &peer{Host: h.Host, PID: h.PID, Name: h.Name, Since: h.Since, Instance: h.Instance}
}

// gate describes s at the time at.
func (h *handler) gate(s guard.LocalState, at time.Time) gate {
	g := gate{name: h.name(s.Key), Waiting: s.Waiting, Blocker: newPeer(s.Blocker), For: seconds(s.BlockedFor)}
	for _, held := range s.Holds {
		line := hold{
			Name: held.Name, Owner: held.Owner, Mode: held.Mode, Since: held.Since, Held: seconds(at.Sub(held.Since)),
			MaxHold: seconds(held.MaxHold), Left: seconds(max(0, held.Until.Sub(at))),
			Cooldown: held.Cooldown, Idle: held.Idle, Stack: held.Stack,
		}
		if held.Err != nil {
			line.Error, line.Left = held.Err.Error(), 0
		}
		g.Holds = append(g.Holds, line)
	}
	for _, w := range s.Waits {
		line := wait{Name: w.Name, Waited: seconds(at.Sub(w.Since))}
		if !w.Until.IsZero() {
			left := seconds(max(0, w.Until.Sub(at)))
			line.Left = &left
		}
		g.Waiters = append(g.Waiters, line)
	}
	return g
}
