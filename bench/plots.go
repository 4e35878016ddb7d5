package main

import (
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// drawAll writes those plots to dir for which there is data, as SVG, and returns the names of the files.
func drawAll(d *data, dir string) (files []string, err error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	for _, p := range []struct {
		file string
		plot *plot.Plot
	}{
		{"spread.svg", spreadPlot(d)},
		{"served.svg", arrivalPlot(d, "Hot key, 4 processes: share of the requests that were served", "share", "served")},
		{"p99.svg", arrivalPlot(d, "Hot key, 4 processes: p99 of the wait", "ms", "p99 ms")},
		{"waits.svg", waitPlot(d)},
	} {
		if p.plot == nil {
			continue
		}
		file := filepath.Join(dir, p.file)
		if err := p.plot.Save(18*vg.Centimeter, 11*vg.Centimeter, file); err != nil {
			return files, err
		}
		files = append(files, file)
	}
	return files, nil
}

func newPlot(title, x, y string) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = color.White // readable on a dark page too
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Title.Padding = vg.Points(6)
	p.Legend.Top, p.Legend.Left = true, true
	p.Legend.Padding = vg.Points(2)
	p.Add(plotter.NewGrid())
	return p
}

// line adds the points of a library, always in the same color; the tuned setting of a peer is dashed.
func line(p *plot.Plot, library string, pts plotter.XYs, marks bool) {
	if len(pts) == 0 {
		return
	}
	l, s, err := plotter.NewLinePoints(pts)
	if err != nil { // a point that is no number
		return
	}
	base, tuned := strings.CutSuffix(library, "-tuned")
	l.Color = plotutil.Color(slices.Index(allNames(), base))
	l.Width = vg.Points(1.2)
	if library == ours {
		l.Width = vg.Points(2.4)
	}
	if tuned {
		l.Dashes = plotutil.Dashes(1)
	}
	s.Color, s.Shape, s.Radius = l.Color, draw.CircleGlyph{}, vg.Points(2)
	p.Add(l)
	if marks {
		p.Add(s)
	}
	p.Legend.Add(library, l)
}

// spreadPlot is throughput by callers.
func spreadPlot(d *data) *plot.Plot {
	p := newPlot("Spread keys: acquire and release", "callers", "pairs/s")
	some := false
	for _, lib := range allNames() {
		var pts plotter.XYs
		for _, callers := range []int{1, 4, 16, 64, 512} {
			if vs := d.all(fmt.Sprintf("spread-%d", callers), lib, "rate"); len(vs) > 0 {
				pts = append(pts, plotter.XY{X: float64(callers), Y: median(vs)})
			}
		}
		some = some || len(pts) > 0
		line(p, lib, pts, true)
	}
	if !some {
		return nil
	}
	logX(p)
	p.Y.Min = 0
	return p
}

// arrivalPlot is a measure by rate of arrival.
func arrivalPlot(d *data, title, unit, measure string) *plot.Plot {
	p := newPlot(title, "requests/s", unit)
	some := false
	for _, lib := range allNames() {
		var pts plotter.XYs
		for _, rate := range d.rates("open-4x", lib) {
			if y := median(d.rung("open-4x", lib, rate, measure)); measure == "served" || y > 0 {
				pts = append(pts, plotter.XY{X: rate, Y: y})
			}
		}
		some = some || len(pts) > 0
		line(p, lib, pts, true)
	}
	if !some {
		return nil
	}
	logX(p)
	if measure == "served" {
		p.Y.Min, p.Y.Max = 0, 1.02
		p.Legend.Top = false
		return p
	}
	logY(p)
	return p
}

// waitPlot is the distribution of the wait.
func waitPlot(d *data) *plot.Plot {
	p := newPlot("Hot key, 4 processes x 25 callers: wait for the key", "ms", "share of the calls that waited no longer")
	some := false
	for _, lib := range d.libraries("hot-4x25") {
		if lib == serial {
			continue
		}
		pts := medianCDF(d.of("hot-4x25", lib))
		some = some || len(pts) > 0
		line(p, lib, pts, false)
	}
	if !some {
		return nil
	}
	logX(p)
	p.Y.Min, p.Y.Max = 0, 1
	return p
}

// medianCDF has the median over rounds of every quantile.
func medianCDF(runs []run) (pts plotter.XYs) {
	for i, share := range cdfShares {
		var qs []float64
		for _, r := range runs {
			if i < len(r.CDF) {
				qs = append(qs, r.CDF[i])
			}
		}
		if m := median(qs); m > 0 {
			pts = append(pts, plotter.XY{X: m, Y: share})
		}
	}
	return pts
}

func logX(p *plot.Plot) { p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1} }
func logY(p *plot.Plot) { p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1} }
