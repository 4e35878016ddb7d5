package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/go-lockguard/guard"
	"github.com/go-lockguard/guard/internal/contest"
	"github.com/go-lockguard/guard/internal/judge"
	"github.com/go-lockguard/guard/lab/internal/childproc"
	"github.com/go-lockguard/guard/lab/torture/libs"
)

// worker is a process that does a job. It says nothing, but writes a diary.
type (
	worker  = childproc.Child[silence]
	silence struct{}
)

type job struct {
	Library  string
	Mutant   string
	Replicas int
	Topology libs.Topology
	Addrs    []string
	Master   string
	Wire     string // the address of its wire to the servers
	Store    string // the address of the guarded resource
	Diary    string // a file
	Proc     int
	Life     int
	Callers  int
	Keys     int
	Long     int
	Roles    []string // none: writers
	TTL      time.Duration
	Seed     uint64
}

// work is the main function of a worker.
func work(parent *childproc.Parent, j job) error {
	redis.SetLogger(&logging.VoidLogger{}) // servers that are down are no news here
	diary, err := judge.OpenDiary(j.Diary)
	if err != nil {
		return err
	}
	chosen, err := libs.Named(j.Library)
	if err != nil {
		return err
	}
	store := openStore(j.Store)
	w := &contest.Worker{
		Proc: j.Proc, Life: j.Life, Callers: j.Callers, Keys: j.Keys, Long: j.Long, Roles: j.Roles, TTL: j.TTL,
		Seed: j.Seed, Store: store, Diary: diary, Alone: true,
	}
	left := parent.Context().Done()
	w.Prepare()
	if w.Locker = j.open(chosen[0], left); w.Locker == nil {
		return nil
	}
	if j.Topology != libs.Single {
		return w.Run(left, store.close)
	}
	direct := redis.NewClient(&redis.Options{Addr: j.Addrs[0], MaxRetries: -1, ContextTimeoutEnabled: true})
	w.Probe = func(ctx context.Context, key int) (ms int64, err error) {
		return direct.Do(ctx, "pttl", chosen[0].Keys(contest.KeyName(key))[0]).Int64()
	}
	return w.Run(left, func() error { return errors.Join(store.close(), direct.Close()) })
}

// open sets the library up. It tries until it succeeds, because some libraries
// need a server for it. It returns nil if the worker must end before.
func (j *job) open(lib *libs.Library, left <-chan struct{}) libs.Locker {
	for {
		l, err := j.newLocker(lib)
		if err == nil {
			return l
		}
		select {
		case <-left:
			return nil
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// newLocker sets the library up, with the mutant if there is one.
func (j *job) newLocker(lib *libs.Library) (libs.Locker, error) {
	s := libs.Setup{
		Topology: j.Topology, Addrs: j.Addrs, Master: j.Master, TTL: j.TTL, Dial: dialBy(j.Wire),
		RestartDelay: config{topology: j.Topology}.mostTTL() + 500*time.Millisecond, Replicas: j.Replicas,
	}
	if slices.Contains(j.Roles, judge.Partition) {
		s.Options = append(s.Options, guard.WithLinger(contest.Lingers))
	}
	if j.Mutant == "" {
		return lib.Open(s)
	}
	return mutants[j.Mutant].open(s)
}
