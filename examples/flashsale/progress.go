package main

import (
	"context"
	"fmt"
	"time"

	"github.com/schollz/progressbar/v3"
)

// watch shows how a sale gets on, until ctx ends: a bar on a terminal, else a line each second. The end is shown too.
func watch(ctx context.Context, con *console, t *tally, total int) {
	began := time.Now()
	every, show := time.Second, func() {
		done, sold := t.progress()
		con.printf("  %4.1f s  %s of %s requests answered, %s sold\n",
			time.Since(began).Seconds(), thousands(done), thousands(total), thousands(sold))
	}
	if con.tty {
		bar := progressbar.NewOptions(total, progressbar.OptionSetWriter(con.w), progressbar.OptionSetWidth(40),
			progressbar.OptionShowCount(), progressbar.OptionEnableColorCodes(con.color),
			progressbar.OptionSetPredictTime(false))
		defer con.printf("\n")
		every, show = 50*time.Millisecond, func() {
			done, sold := t.progress()
			bar.Describe(fmt.Sprintf("  %6s sold", thousands(sold)))
			_ = bar.Set(done)
		}
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
