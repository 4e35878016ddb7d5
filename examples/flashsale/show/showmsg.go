package show

import "github.com/go-lockguard/guard/examples/flashsale/shop"

// What pages are told. Times are µs since the run began, unless their name says
// ms; 0 is what has not happened.

// opening is the first message of a run: it resets a page.
type opening struct {
	Run runInfo `json:"run"`
}

// runInfo describes a run.
type runInfo struct {
	ID        int       `json:"id"`  // 0: nothing has been played yet
	Act       int       `json:"act"` // 0: a free sale
	Title     string    `json:"title"`
	Mode      shop.Mode `json:"mode"`
	Instances int       `json:"instances"`
	Stock     int       `json:"stock"`
	Buyers    int       `json:"buyers"`
	Requests  int       `json:"requests"`
	ThinkMS   float64   `json:"think_ms"`
	TTLMS     float64   `json:"ttl_ms"`
	WaitMS    float64   `json:"wait_ms"`
	Deaf      bool      `json:"deaf"`
	CanStop   bool      `json:"can_stop"` // this system can pause processes
	Started   string    `json:"started"`
}

// update is every other message. Each part says how things are now; what is
// missing has not changed.
type update struct {
	Now     int64       `json:"now"`
	Phase   phase       `json:"phase,omitempty"`
	Lanes   []lane      `json:"lanes,omitempty"`
	Visits  []pageVisit `json:"visits,omitempty"`
	Marks   []mark      `json:"marks,omitempty"`
	Said    []said      `json:"said,omitempty"`
	Numbers *numbers    `json:"numbers,omitempty"`
	Point   *point      `json:"point,omitempty"`
	Waits   [][2]int    `json:"waits,omitempty"` // bucket i counts 2^(i/2) s to 2^((i+1)/2) s
	Holds   [][2]int    `json:"holds,omitempty"`
	Result  *result     `json:"result,omitempty"`
	Missed  []string    `json:"missed,omitempty"` // what did not go as it must, or as the act tells
	Error   string      `json:"error,omitempty"`
}

// news says whether a running update tells anything.
func (u update) news() bool {
	return u.Lanes != nil || u.Visits != nil || u.Marks != nil || u.Said != nil || u.Numbers != nil || u.Point != nil
}

type phase string

const (
	phaseIdle     phase = "idle"
	phaseStarting phase = "starting"
	phaseSelling  phase = "selling"
	phaseStopping phase = "stopping"
	phaseEnded    phase = "ended"
)

// lane is one instance.
type lane struct {
	Name  string    `json:"name"`
	PID   int       `json:"pid"`
	State laneState `json:"state"`
}

type laneState string

const (
	laneUp     laneState = "up"
	lanePaused laneState = "paused"
	laneGone   laneState = "gone"
)

// pageVisit is one request: how it waited, held and ended.
type pageVisit struct {
	Order   string `json:"o"`
	Lane    string `json:"i"`
	Came    int64  `json:"c,omitempty"`
	Held    int64  `json:"h,omitempty"`
	Wrote   int64  `json:"w,omitempty"`
	Lost    int64  `json:"l,omitempty"`
	Ended   int64  `json:"e,omitempty"`
	Token   uint64 `json:"t,omitempty"`
	Newest  uint64 `json:"n,omitempty"` // the token that its late write came after
	Read    *int   `json:"r,omitempty"` // the stock that it read
	Left    *int   `json:"s,omitempty"` // the stock that it wrote
	Behind  string `json:"b,omitempty"` // order whose grant was in the way last
	Handoff bool   `json:"f,omitempty"`
	Tries   int    `json:"a,omitempty"`
	Code    string `json:"k,omitempty"` // what the buyer was told
	Double  string `json:"d,omitempty"` // order that had sold the same item before

	waited, held bool // counted in the plots
}

// mark is a stretch of time in one lane, or in all of them if Lane is "".
type mark struct {
	ID   int    `json:"id"`
	Lane string `json:"i,omitempty"`
	Kind string `json:"k"` // paused, killed, cut
	From int64  `json:"from"`
	To   int64  `json:"to,omitempty"` // 0: it goes on
}

// said is a line that tells what happens.
type said struct {
	AtMS int64  `json:"ms"`
	Text string `json:"text"`
}

// numbers are counts so far; in the end those of the report.
type numbers struct {
	Left        int            `json:"left"`
	Orders      int            `json:"orders"`
	Sold        int            `json:"sold"`
	Oversold    int            `json:"oversold"`
	LostUpdates int            `json:"lost_updates"`
	LateWrites  int            `json:"late_writes_refused"`
	LeasesLost  int            `json:"leases_lost"`
	Answered    int            `json:"answered"`
	Refused     int            `json:"refused"`
	Reasons     map[string]int `json:"refused_by_reason"`
	Errors      int            `json:"errors"`
}

// point is one of the plots over time: the quantiles are of what ended since
// the point before, in ms; nil is none.
type point struct {
	MS      int64    `json:"ms"`
	Orders  int      `json:"orders"`
	Left    int      `json:"left"`
	RPS     float64  `json:"rps"`
	WaitP50 *float64 `json:"w50"`
	WaitP99 *float64 `json:"w99"`
	HoldP50 *float64 `json:"h50"`
	HoldP99 *float64 `json:"h99"`
}
