package main

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/lab/torture/libs"
)

// mutant is a guard with a planted fault in its store or around its leases. The
// torture proves itself by finding it.
type mutant struct {
	about string
	store func(guard.Locker, *redis.Client) guard.Locker // the client reaches the servers as the guard does
	lock  func(l libs.Locker, ttl time.Duration) libs.Locker
}

var mutants = map[string]mutant{
	"noowner":    {about: "a release frees the key whoever owns it", store: newNoOwner},
	"norenew":    {about: "renewals are said to work and not sent", store: newNoRenew},
	"recreate":   {about: "a renewal sets the key whoever owns it", store: newRecreate},
	"notjoined":  {about: "a renewal may come after the release, and sets the key again", store: newNotJoined},
	"sametoken":  {about: "tokens are the same for a second", store: newSameToken},
	"localtoken": {about: "each process counts tokens by itself", store: newLocalToken},
	"lostwakeup": {about: "the message that a key was handed over gets lost", store: newLostWakeUp},
	"longlife":   {about: "keys last four times their TTL, so a dead holder costs too much", store: newLongLife},
	"nottl":      {about: "some keys have no TTL", store: newNoTTL},
	"freecrowd":  {about: "a release frees the key of all that share it", store: newFreeCrowd},
	"nostay":     {about: "renewals of shares and permits are said to work and not sent", store: newNoStay},
	"halfcart":   {about: "several keys are said to be taken when one is held", store: newHalfCart},

	"norecall": {about: "no call finds a result", store: newNoRecall},
	"norecord": {about: "results are said to be kept and are not", store: newNoRecord},
	"nomark":   {about: "keys are said to be marked and are not", store: newNoMark},

	"permittoken": {about: "the tokens of permits are the same for a second", store: newPermitToken},

	"nolock":    {about: "everybody is let in", lock: newNoLock},
	"receipt":   {about: "trust is counted from the receipt of an answer", lock: newReceipt},
	"untold":    {about: "nobody is told that a lease has ended", lock: newUntold},
	"afterloss": {about: "a lease that was lost is handed on", lock: newAfterLoss},
	"overstay":  {about: "waits last longer than they should", lock: newOverstay},
	"onemore":   {about: "one permit too many", lock: newOneMore},
	"leak":      {about: "a goroutine stays behind", lock: newLeak},
}

// open makes the guard that the mutant spoils.
func (m mutant) open(s libs.Setup) (libs.Locker, error) {
	if m.lock != nil {
		l, err := libs.Guard.Open(s)
		if err != nil {
			return nil, err
		}
		return m.lock(l, s.TTL), nil
	}
	rdb := redis.NewClient(&redis.Options{
		Addr: s.Addrs[0], Dialer: s.Dial, MaxRetries: -1,
		ContextTimeoutEnabled: true,
	})
	s.Wrap = func(l guard.Locker) guard.Locker { return m.store(l, rdb) }
	l, err := libs.Guard.Open(s)
	if err != nil {
		return nil, errors.Join(err, rdb.Close())
	}
	return spoiled{l, l.(libs.Moded), l.(libs.Recording), rdb}, nil
}

// spoiled is a guard whose store has a client of its own.
type spoiled struct {
	libs.Locker
	libs.Moded
	libs.Recording

	rdb *redis.Client
}

func (s spoiled) Close(ctx context.Context) error {
	return errors.Join(s.Locker.Close(ctx), s.rdb.Close())
}
