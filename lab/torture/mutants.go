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
	store spoiled                                            // without a store and a client
	lock  func(l libs.Locker, ttl time.Duration) libs.Locker // instead of store
}

var mutants = map[string]mutant{
	"noowner": {
		about: "a release frees the key whoever owns it", store: spoiled{release: freeKey},
	},
	"norenew":  {about: "renewals are said to work and not sent", store: spoiled{renew: renewOf(none)}},
	"recreate": {about: "a renewal sets the key whoever owns it", store: spoiled{renew: recreate}},
	"notjoined": {
		about: "a renewal may come after the release, and sets the key again", store: spoiled{renew: notJoined},
	},
	"sametoken":  {about: "tokens are the same for a second", store: spoiled{acquire: sameToken}},
	"localtoken": {about: "each process counts tokens by itself", store: spoiled{acquire: localToken}},
	"lostwakeup": {about: "the message that a key was handed over gets lost", store: spoiled{deaf: true}},
	"longlife": {
		about: "keys last four times their TTL, so a dead holder costs too much",
		store: spoiled{acquire: longLife, renew: renewLonger},
	},
	"nottl":     {about: "some keys have no TTL", store: spoiled{acquire: noTTL}},
	"freecrowd": {about: "a release frees the key of all that share it", store: spoiled{release: freeCrowd}},
	"nostay": {
		about: "renewals of shares and permits are said to work and not sent", store: spoiled{renew: renewOf(alone)},
	},
	"halfcart":    {about: "several keys are said to be taken when one is held", store: spoiled{all: halfCart}},
	"norecall":    {about: "no call finds a result", store: spoiled{acquire: noRecall}},
	"norecord":    {about: "results are said to be kept and are not", store: spoiled{release: onlyFree}},
	"nomark":      {about: "keys are said to be marked and are not", store: spoiled{unmarks: true}},
	"permittoken": {about: "the tokens of permits are the same for a second", store: spoiled{acquire: sameToken}},

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
	s.Wrap = func(l guard.Locker) guard.Locker {
		m.store.Locker, m.store.rdb = l, rdb
		return &m.store
	}
	l, err := libs.Guard.Open(s)
	if err != nil {
		return nil, errors.Join(err, rdb.Close())
	}
	return closing{l, l.(libs.Moded), l.(libs.Recording), rdb}, nil
}

// closing is a guard whose store has a client of its own.
type closing struct {
	libs.Locker
	libs.Moded
	libs.Recording

	rdb *redis.Client
}

func (s closing) Close(ctx context.Context) error {
	return errors.Join(s.Locker.Close(ctx), s.rdb.Close())
}
