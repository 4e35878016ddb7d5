package main

import (
	"context"
	"errors"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/go-lockguard/guard"
)

// stats is what an instance measured: raw durations, so that the parent can take quantiles over all instances.
type stats struct {
	Waits      []time.Duration // for the key, of all callers: those refused waited too
	Holds      []time.Duration
	LeasesLost int
}

// meter is a guard.Observer that keeps every duration: an example may, a service uses package tracing.
type meter struct {
	guard.NopObserver

	mu    sync.Mutex // guards stats
	stats stats
}

func (m *meter) WaitEnd(_ context.Context, _ guard.WaitInfo, r guard.WaitResult) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stats.Waits = append(m.stats.Waits, r.Waited)
}

func (m *meter) HoldEnd(_ context.Context, _ guard.WaitInfo, r guard.HoldResult) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stats.Holds = append(m.stats.Holds, r.Held)
	if errors.Is(r.Err, guard.ErrLeaseLost) {
		m.stats.LeasesLost++
	}
}

// serve answers with the stats so far.
func (m *meter) serve(c *gin.Context) {
	m.mu.Lock()
	copied := stats{slices.Clone(m.stats.Waits), slices.Clone(m.stats.Holds), m.stats.LeasesLost}
	m.mu.Unlock()
	c.JSON(http.StatusOK, copied)
}

// quantile returns the q-quantile by nearest rank, 0 of nothing. It sorts ds.
func quantile(ds []time.Duration, q float64) time.Duration {
	if len(ds) == 0 {
		return 0
	}
	slices.Sort(ds)
	return ds[max(int(math.Ceil(q*float64(len(ds))))-1, 0)]
}
