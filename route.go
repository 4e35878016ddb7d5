package guard

import (
	"log/slog"
	"time"
)

// Adapters ask the guard of a route for these settings, so that their log lines
// read like the guard's.

// Name returns the name that [WithName] has set. A nil Guard, or one derived
// from it, has the name of the default guard, or "guard" before [SetDefault].
// Name does not block and is safe for concurrent use.
func (g *Guard) Name() string { return g.settings().set.Name }

// Logger returns the logger that [WithLogger] has set, or [slog.Default]. A nil
// Guard stands for the default one here, too. Logger does not block and is safe
// for concurrent use.
func (g *Guard) Logger() *slog.Logger { return g.settings().log() }

// MaxWait returns how long a call may wait, as [WithMaxWait] has set it. A nil
// Guard stands for the default one here, too. It does not block, and is safe
// for concurrent use.
func (g *Guard) MaxWait() time.Duration { return g.settings().set.MaxWait }

// MaxHold returns how long a turn may last, as [WithMaxHold] has set it. 0
// means no limit. A nil Guard stands for the default one here, too. It does not
// block, and is safe for concurrent use.
func (g *Guard) MaxHold() time.Duration { return g.settings().set.MaxHold }

// MinHold returns how long a key stays taken at least, as [WithMinHold] has set
// it. 0 means no longer than its turn. A nil Guard stands for the default one
// here, too. It does not block, and is safe for concurrent use.
func (g *Guard) MinHold() time.Duration { return g.settings().set.MinHold }

// settings returns g's settings. Before there is a default guard it returns
// those that are known.
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
