package show

import (
	"context"
	"fmt"
	"time"

	"github.com/schollz/progressbar/v3"
)

// watch shows how a sale gets on, until ctx ends: a bar on a terminal, else a
// line each second. The end is shown too.
func watch(ctx context.Context, con *console, t *tally, requests, stock int) {
	began := time.Now()
	every, show := time.Second, func() {
		done, sold := t.progress()
		con.printf("  %4.1f s  \t%s of %s requests answered, %s of %s sold\n",
			time.Since(began).Seconds(), thousands(done), thousands(requests), thousands(sold), thousands(stock))
	}
	if con.tty {
		bar := newBar(con, requests, stock)
		defer con.printf("\n")
		every, show = 50*time.Millisecond, func() { bar.show(t.progress()) }
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			show()
		case <-ctx.Done():
			show()
			return
		}
	}
}

// bar is filled by the requests that have been answered. The number
// of sold items stands beside it, under a name of its own.
type bar struct {
	*progressbar.ProgressBar
	stock string // "": no room for more than how many were sold
}

// Widths of the bar itself.
const (
	mostBar  = 40
	leastBar = 10
)

func newBar(con *console, requests, stock int) bar {
	b := bar{stock: thousands(stock)}
	counts := fmt.Sprintf("(%d/%d)", requests, requests)
	room := con.width - columns(fmt.Sprintf("%4d%% || %s %s ", 100, counts, b.words(stock)))
	if room < leastBar {
		b.stock = ""
		room = con.width - columns(fmt.Sprintf("%4d%% ||  %s ", 100, b.words(stock)))
	}
	options := []progressbar.Option{
		progressbar.OptionSetWriter(con.w), progressbar.OptionSetWidth(max(1, min(mostBar, room))),
		progressbar.OptionSetElapsedTime(false), progressbar.OptionSetPredictTime(false),
		progressbar.OptionShowDescriptionAtLineEnd(), progressbar.OptionEnableColorCodes(con.color),
	}
	if b.stock != "" {
		options = append(options, progressbar.OptionShowCount())
	}
	b.ProgressBar = progressbar.NewOptions(requests, options...)
	return b
}

func (b bar) words(sold int) string {
	if b.stock == "" {
		return fmt.Sprintf("answered, %s sold", thousands(sold))
	}
	return fmt.Sprintf("requests answered, %s of %s sold", thousands(sold), b.stock)
}

func (b bar) show(done, sold int) {
	b.Describe(b.words(sold))
	_ = b.Set(done) // written to a terminal
}
