'use strict';
// The plots, each with the table behind it. A plot of what a run does not have says so.

const plots = [
  { id: 'sold', legend: [['sold', 'orders'], ['alt', 'left', 'dash']], locked: false,
    x: (p) => p.ms / 1000, y: [(p) => p.orders, (p) => p.left], unit: (v) => count(v) },
  { id: 'rps', legend: [['sold', 'answers']], locked: false,
    x: (p) => p.ms / 1000, y: [(p) => p.rps], unit: (v) => count(v) },
  { id: 'wait', legend: [['sold', 'half'], ['alt', 'most', 'dash']], locked: true,
    x: (p) => p.ms / 1000, y: [(p) => p.wait_p50_ms, (p) => p.wait_p99_ms], unit: span },
  { id: 'hold', legend: [['sold', 'half'], ['alt', 'most', 'dash']], locked: true,
    x: (p) => p.ms / 1000, y: [(p) => p.hold_p50_ms, (p) => p.hold_p99_ms], unit: span },
  { id: 'waits', legend: [['sold', 'requests']], bars: () => sale.waits, locked: true },
  { id: 'holds', legend: [['sold', 'requests']], bars: () => sale.holds, locked: true },
];

for (const plot of plots) {
  plot.box = make('div', { className: 'plot', id: 'plot-' + plot.id });
  plot.table = make('div', { className: 'scroll' });
  plot.more = make('details', { ontoggle: () => fillTable(plot) }, make('summary', { 'data-t': 'plot.table' }), plot.table);
  plot.caption = make('figcaption', {}, make('strong', { 'data-t': 'plot.' + plot.id }));
  byId('plots').append(make('figure', {}, plot.caption, plot.box, plot.more));
  for (const [c, text, dash] of plot.legend) {
    const line = make('i', { className: dash || '' });
    line.style.borderColor = `var(--${c})`;
    plot.caption.append(make('span', {}, line, make('em', { 'data-t': 'plot.' + text })));
  }
}

// edge_ is the lower end of a bucket, in ms.
const edge_ = (i) => 1000 * 2 ** (i / 2);

function dataOf(plot) {
  if (!plot.bars) return [sale.points.map(plot.x), ...plot.y.map((y) => sale.points.map(y))];
  const by = plot.bars();
  const keys = [...by.keys()];
  const data = [[], []];
  for (let i = Math.min(...keys) - 1; keys.length && i <= Math.max(...keys) + 1; i++) {
    data[0].push(i);
    data[1].push(by.get(i) || 0);
  }
  return data;
}

function optionsOf(plot) {
  const muted = colour('muted'), grid = { stroke: colour('line'), width: 1 };
  const axis_ = (more) => ({ stroke: muted, grid, ticks: grid, font: '12px system-ui, sans-serif', ...more });
  const series = plot.bars ?
    [{}, { fill: colour('sold'), stroke: colour('sold'), paths: uPlot.paths.bars({ size: [0.86, 60] }), points: { show: false } }] :
    [{}, ...plot.legend.map(([c, , dash]) => ({ stroke: colour(c), width: 2.5, dash: dash ? [7, 4] : undefined, spanGaps: true, points: { show: sale.points.length < 6, size: 6, fill: colour(c) } }))];
  return {
    width: plot.box.clientWidth, height: plot.box.clientHeight, series, legend: { show: false },
    cursor: { drag: { x: false, y: false }, points: { size: 7 } },
    padding: [12, 8, 0, 0],
    scales: {
      x: { time: false, range: plot.bars ? (u, lo, hi) => [lo - 0.6, hi + 0.6] : (u, lo, hi) => [0, Math.max(hi || 1, 1)] },
      y: { range: (u, lo, hi) => [0, Math.max(hi * 1.08 || 1, plot.bars ? 1 : 0.001)] },
    },
    axes: [
      axis_(plot.bars ? { values: (u, at) => at.map((i) => (Number.isInteger(i) ? short(edge_(i)) : '')), incrs: [1, 2, 4, 6, 8], space: 44, grid: { show: false }, size: 30 } :
        { values: (u, at) => at.map((s) => s + ' s'), space: 60, size: 30 }),
      axis_({ values: (u, at) => at.map((v) => (plot.bars ? (Number.isInteger(v) ? count(v) : '') : plot.locked ? short(v) : count(v))), size: 58, space: 34 }),
    ],
  };
}

// short writes a duration for an axis.
function short(ms) {
  if (ms >= 1000) return +(ms / 1000).toPrecision(2) + ' s';
  if (ms >= 1 || ms === 0) return +ms.toPrecision(2) + ' ms';
  return +(ms * 1000).toPrecision(2) + ' µs';
}

function showPlot(plot) {
  const data = dataOf(plot);
  const none = plot.locked && sale.run.id && !guarded() ? t('plot.nolock') : !data[0].length ? t('plot.nothing') : '';
  if (none) {
    if (plot.chart) plot.chart.destroy();
    plot.chart = null;
    plot.box.replaceChildren(make('p', {}, none));
    fillTable(plot);
    return;
  }
  if (!plot.chart || (!plot.bars && sale.points.length === 6)) {
    if (plot.chart) plot.chart.destroy();
    plot.box.replaceChildren();
    plot.chart = new uPlot(optionsOf(plot), data, plot.box);
  } else {
    plot.chart.setData(data);
  }
  fillTable(plot);
}

function fillTable(plot) {
  if (!plot.more.open) return;
  if (plot.bars) {
    plot.table.replaceChildren(table(t('plot.' + plot.id), [t('plot.from'), t('plot.to'), t('plot.many')], [...plot.bars()].sort((a, b) => a[0] - b[0]).map(([i, n]) => [short(edge_(i)), short(edge_(i + 1)), count(n)])));
    return;
  }
  plot.table.replaceChildren(table(t('plot.' + plot.id), [t('plot.after'), ...plot.legend.map((l) => t('plot.' + l[1]))],
    sale.points.map((p) => [`${(p.ms / 1000).toFixed(1)} s`, ...plot.y.map((y) => (y(p) === null ? '–' : plot.unit(y(p))))])));
}

function renew() {
  for (const plot of plots) {
    if (plot.chart) plot.chart.destroy();
    plot.chart = null;
    showPlot(plot);
  }
}

watchers.push((changed) => {
  if (changed.run || changed.lang) renew();
  else if (changed.points || changed.end) plots.forEach(showPlot);
});
dark.addEventListener('change', renew);
let plotWidth = 0;
new ResizeObserver(() => {
  if (byId('plots').clientWidth === plotWidth) return;
  plotWidth = byId('plots').clientWidth;
  for (const plot of plots) if (plot.chart) plot.chart.setSize({ width: plot.box.clientWidth, height: plot.box.clientHeight });
}).observe(byId('plots'));
