package guard

import (
	"log/slog"
	"time"
)

// What adapters ask of the guard of a route, so that what they log reads like what the guard logs.

// Name returns the name that [WithName] has set. That of a nil Guard, or one derived from it, is the default guard's, and
// without one the default name. It does not block, and is safe for concurrent use.
func (g *Guard) Name() string { return g.settings().set.Name }

// Logger returns where the guard logs: what [WithLogger] has set, else [slog.Default]. A nil Guard stands for the default
// one here, too. It does not block, and is safe for concurrent use.
func (g *Guard) Logger() *slog.Logger { return g.settings().log() }

// MaxWait returns how long a call may wait, as [WithMaxWait] has set it. A nil
// Guard stands for the default one here, too. It does not block, and is safe for
// concurrent use.
func (g *Guard) MaxWait() time.Duration { return g.settings().set.MaxWait }

// MaxHold returns how long a turn may last, as [WithMaxHold] has set it; 0 means no
// limit. A nil Guard stands for the default one here, too. It does not block, and
// is safe for concurrent use.
func (g *Guard) MaxHold() time.Duration { return g.settings().maxHold }

// MinHold returns how long a key stays taken at least, as [WithMinHold] has set
// it; 0 means no longer than its turn. A nil Guard stands for the default one
// here, too. It does not block, and is safe for concurrent use.
func (g *Guard) MinHold() time.Duration { return g.settings().minHold }

// settings are g's, or as much of them as is known before there is a default guard.
func (g *Guard) settings() *config {
	if known, err := g.resolve(); err == nil {
		return &known.config
	}
	if g != nil {
		return &g.config
	}
	c := defaults()
	return &c
}
