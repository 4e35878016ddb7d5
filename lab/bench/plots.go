package main

import (
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// figure is a plot with its legend beside it.
type figure struct {
	*plot.Plot

	legend plot.Legend
	lines  int
}

const (
	figureWidth  = 22 * vg.Centimeter
	figureHeight = 11 * vg.Centimeter
	legendWidth  = 4.5 * vg.Centimeter
)

// drawAll writes the plots that have data to dir as SVG. It returns the names
// of the files.
func drawAll(d *data, dir string) (files []string, err error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	for _, p := range []struct {
		name string
		fig  *figure
	}{
		{"spread.svg", spreadPlot(d)},
		{"served.svg", arrivalPlot(d, "Hot key, 4 processes: requests that were served", "share", "served")},
		{"p99.svg", arrivalPlot(d, "Hot key, 4 processes: p99 of the wait of those served", "ms", "p99 ms")},
		{"waits.svg", waitPlot(d)},
	} {
		if p.fig.lines == 0 {
			continue
		}
		file := filepath.Join(dir, p.name)
		if err := p.fig.save(file); err != nil {
			return files, err
		}
		files = append(files, file)
	}
	return files, nil
}

func newFigure(title, x, y string) *figure {
	f := &figure{Plot: plot.New(), legend: plot.NewLegend()}
	f.BackgroundColor = color.White // readable on a dark page too
	f.Title.Text, f.X.Label.Text, f.Y.Label.Text = title, x, y
	f.Title.Padding = vg.Points(8)
	f.legend.Top = true
	f.legend.Padding = vg.Points(3)
	f.Add(plotter.NewGrid())
	return f
}

func (f *figure) save(file string) (err error) {
	canvas := vgsvg.New(figureWidth, figureHeight)
	all := draw.New(canvas)
	all.SetColor(color.White)
	all.Fill(all.Rectangle.Path())
	f.Draw(draw.Crop(all, vg.Points(4), -legendWidth, vg.Points(4), -vg.Points(4)))
	f.legend.Draw(draw.Crop(all, 0, -vg.Points(8), 0, -vg.Points(30)))
	out, err := os.Create(file) //nolint:gosec // where the user wants it
	if err != nil {
		return err
	}
	_, err = canvas.WriteTo(out)
	if closeErr := out.Close(); err == nil {
		err = closeErr
	}
	return err
}

var colors = map[string]color.Color{
	ours:          color.RGBA{R: 0x0b, G: 0x7a, B: 0x3b, A: 0xff},
	"redislock":   color.RGBA{R: 0x1f, G: 0x77, B: 0xb4, A: 0xff},
	"redsync":     color.RGBA{R: 0xe6, G: 0x8a, B: 0x00, A: 0xff},
	"rueidislock": color.RGBA{R: 0xc0, G: 0x2b, B: 0x4e, A: 0xff},
}

// line adds the points of a library, always in the same color. The tuned
// setting of a peer is dashed.
func (f *figure) line(library string, pts plotter.XYs, marks bool) {
	if len(pts) == 0 {
		return
	}
	l, s, err := plotter.NewLinePoints(pts)
	if err != nil { // a point that is not a number
		return
	}
	base, tuned := strings.CutSuffix(library, "-tuned")
	l.Color, l.Width = colors[base], vg.Points(1.2)
	if library == ours {
		l.Width = vg.Points(2.4)
	}
	if tuned {
		l.Dashes = []vg.Length{vg.Points(5), vg.Points(3)}
	}
	s.Color, s.Shape, s.Radius = l.Color, draw.CircleGlyph{}, vg.Points(2)
	f.Add(l)
	if marks {
		f.Add(s)
	}
	f.legend.Add(library, l)
	f.lines++
}

// spreadPlot shows throughput by callers.
func spreadPlot(d *data) *figure {
	f := newFigure("Spread keys: acquire and release", "callers", "pairs/s")
	all := []float64{1, 4, 16, 64, 512}
	for _, lib := range allNames() {
		var pts plotter.XYs
		for _, callers := range all {
			if vs := d.all(fmt.Sprintf("spread-%g", callers), lib, "rate"); len(vs) > 0 {
				pts = append(pts, plotter.XY{X: callers, Y: median(vs)})
			}
		}
		if len(pts) > 1 { // else the axis would begin at 0, which has no logarithm
			f.line(lib, pts, true)
		}
	}
	logarithmic(&f.X, all...)
	f.Y.Min = 0
	return f
}

// arrivalPlot shows a measure by rate of arrival.
func arrivalPlot(d *data, title, unit, measure string) *figure {
	f := newFigure(title, "requests/s", unit)
	for _, lib := range allNames() {
		var pts plotter.XYs
		for _, rate := range d.rates("open-4x", lib) {
			if y := median(d.rung("open-4x", lib, rate, measure)); measure == "served" || y > 0 {
				pts = append(pts, plotter.XY{X: rate, Y: y})
			}
		}
		f.line(lib, pts, true)
	}
	logarithmic(&f.X, 200, 500, 1000, 2000, 5000, 10_000, 20_000)
	if measure == "served" {
		f.Y.Min, f.Y.Max = 0, 1.02
	} else {
		logarithmic(&f.Y, 0.1, 1, 10, 100, 1000)
	}
	return f
}

// waitPlot shows the distribution of the wait.
func waitPlot(d *data) *figure {
	f := newFigure("Hot key, 4 processes x 25 callers: wait for the key", "ms",
		"share of the calls that waited no longer")
	for _, lib := range d.libraries("hot-4x25") {
		if lib != serial {
			f.line(lib, medianCDF(d.of("hot-4x25", lib)), false)
		}
	}
	logarithmic(&f.X, 0.01, 0.1, 1, 10, 100, 1000)
	f.Y.Min, f.Y.Max = 0, 1
	return f
}

// medianCDF returns the median over rounds of every quantile.
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

// logarithmic scales an axis and marks it at some values.
func logarithmic(a *plot.Axis, at ...float64) {
	var ticks plot.ConstantTicks
	for _, v := range at {
		ticks = append(ticks, plot.Tick{Value: v, Label: strconv.FormatFloat(v, 'f', -1, 64)})
	}
	a.Scale, a.Tick.Marker = plot.LogScale{}, ticks
}
