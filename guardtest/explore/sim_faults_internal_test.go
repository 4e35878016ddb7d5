package explore

import (
	"slices"
	"time"
)

// simTTL is the TTL of most scenarios. Each delay is on another side of a
// limit. A look comes after 250 ms. A holder leaves 360 ms of its lease unused.
// An offer lasts 1 s, and a renewal comes after 2 s.
const (
	simTTL     = 6 * time.Second
	pieceAfter = 300 * time.Millisecond
	fadingBy   = 700 * time.Millisecond
)

const (
	crashBefore kind = "crash-before" // the process dies before the effect
	cut         kind = "cut"          // an effect, and the connection breaks
	inPieces    kind = "in-pieces"    // the answer comes in two pieces, the second one late
	partition   kind = "partition"    // the process does not reach Redis, for longer than a TTL
	fading      kind = "fading"       // an answer is late, and the process does not reach Redis from then on
	blackout    kind = "blackout"     // nor for five minutes
	forgotten   kind = "noscript"     // the server has forgotten its scripts
	promote1    kind = "promote-1"    // a replica without the last write becomes the server
	promote2    kind = "promote-2"    // without the last two
	promote4    kind = "promote-4"
	splitShort  kind = "split-250ms" // the same, and the old server goes on for the process, for so long
	splitLong   kind = "split-7.5s"
	clockOn     kind = "clock+7.5s" // the server's clock is set forward, by more than a TTL
	clockBack   kind = "clock-7.5s"
	lostMessage kind = "lost-message"
	twice       kind = "twice"      // a message comes twice
	refused     kind = "refused"    // a dial
	atReplica   kind = "at-replica" // the subscription: messages come, and the server counts nobody
)

var (
	lateBy     = make(map[kind]time.Duration) // how much later a request or a message arrives
	answerBy   = make(map[kind]time.Duration) // how much later an answer arrives
	outages    = map[kind]time.Duration{partition: simTTL * 5 / 4, fading: simTTL * 3 / 2, blackout: 5 * time.Minute}
	lostWrites = map[kind]int{promote1: 1, promote2: 2, promote4: 4, splitShort: 1, splitLong: 1}
	splits     = map[kind]time.Duration{splitShort: 250 * ms, splitLong: simTTL * 5 / 4}
	clockBy    = map[kind]time.Duration{clockOn: simTTL * 5 / 4, clockBack: -simTTL * 5 / 4}

	lates, answers []kind // the shortest first
	requestKinds   []kind
	scriptKinds    []kind // of requests for which the server must know a script
	subscribeKinds []kind
	messageKinds   []kind
	dialKinds      = []kind{yield, swap, refused}
	stayKinds      = []kind{yield, swap, crash, pause}
)

func init() {
	for _, d := range []time.Duration{300 * ms, 700 * ms, 1500 * ms, simTTL / 2, simTTL * 5 / 4} {
		l, a := kind("late-"+d.String()), kind("answer-"+d.String())
		lateBy[l], answerBy[a] = d, d
		lates, answers = append(lates, l), append(answers, a)
	}
	delays := slices.Concat(lates, answers)
	requestKinds = slices.Concat([]kind{
		yield, swap, crash, crashBefore, lostAnswer, lostRequest, pause, longPause, cut, inPieces, partition,
		fading, blackout, flush, promote1, promote2, promote4, splitShort, splitLong, clockOn, clockBack,
	}, delays)
	scriptKinds = append(slices.Clip(requestKinds), forgotten)
	subscribeKinds = append(slices.Clip(requestKinds), atReplica)
	messageKinds = append([]kind{yield, swap, crash, pause, lostMessage, twice, cut, partition}, lates...)
	simplest = slices.Concat(simplest, delays, []kind{
		cut, lostMessage, twice, refused, atReplica, partition, fading, blackout, crashBefore, promote1, promote2,
		promote4, splitShort, splitLong, clockOn, clockBack, forgotten, inPieces,
	})
}
