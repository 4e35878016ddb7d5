'use strict';
// What the page knows: the sum of all messages of the run on stage. Everything else only draws it.

const sale = fresh({ id: 0, mode: '', stock: 0 });
const watchers = []; // functions called after each batch of messages; they get what has changed

function fresh(run) {
  return {
    run, phase: 'idle', lanes: [], visits: new Map(), marks: new Map(), said: [], points: [],
    numbers: null, waits: new Map(), holds: new Map(), waited: [], held: [], result: null, missed: [], error: null,
    now: 0, heardAt: 0, end: 0, // times of the run are µs since it began; heardAt is a time of this page
    slots: new Map(), byLane: new Map(),
  };
}

const frozen = document.getElementById('frozen');

// tell takes over messages, in their order.
function tell(messages, changed = { run: false, lanes: false, said: false, points: false, end: false, lang: false }) {
  for (const m of messages) {
    if (m.run) {
      Object.assign(sale, fresh(m.run));
      changed.run = changed.lanes = changed.said = changed.points = true;
    } else {
      update(m, changed);
    }
  }
  for (const w of watchers) w(changed);
}

function update(m, changed) {
  if (m.now) { sale.now = m.now; sale.heardAt = performance.now(); }
  if (m.phase) { sale.phase = m.phase; changed.end = true; }
  if (m.lanes) { sale.lanes = m.lanes; changed.lanes = true; }
  for (const mark of m.marks || []) sale.marks.set(mark.id, mark);
  for (const v of (m.visits || []).sort((a, b) => a.c - b.c)) take(v);
  if (m.said) { sale.said.push(...m.said); changed.said = true; }
  if (m.numbers) sale.numbers = m.numbers;
  if (m.now && m.numbers && addPoint(m)) changed.points = true;
  if (m.result) sale.result = m.result;
  if (m.missed) sale.missed = m.missed;
  if (m.error) sale.error = m.error;
}

// take adds or replaces one request, and finds it a row of its lane for as long as it lasts.
function take(v) {
  const known = sale.visits.get(v.o);
  v.row = known && known.row !== undefined ? known.row : undefined;
  sale.visits.set(v.o, v);
  if (!v.c) return; // its instance has not told of it yet
  if (guarded()) {
    if ((v.h || v.e) && !(known && known.c && (known.h || known.e))) note(((v.h || v.e) - v.c) / 1000, sale.waits, sale.waited);
    if (v.h && v.e && !(known && known.h && known.e)) note((v.e - v.h) / 1000, sale.holds, sale.held);
  }
  const rows = slotsOf(v.i);
  if (v.row === undefined) {
    v.row = rows.findIndex((until) => until <= v.c);
    if (v.row < 0) v.row = rows.length;
    if (!sale.byLane.has(v.i)) sale.byLane.set(v.i, []);
    sale.byLane.get(v.i).push(v.o);
  }
  rows[v.row] = v.e || Infinity;
  sale.end = Math.max(sale.end, v.e || v.h || v.c);
}

// note counts a duration in ms, in bucket i if it is from 2^(i/2) s to 2^((i+1)/2) s, and among those since the last point.
function note(ms, buckets, recent) {
  const i = Math.floor(2 * Math.log2(Math.max(ms, 0.001) / 1000));
  buckets.set(i, (buckets.get(i) || 0) + 1);
  recent.push(ms);
}

// addPoint adds a point to the plots over time, five a second. Its quantiles are of what ended since the point before.
function addPoint(m) {
  const last = sale.points.at(-1) || { us: 0, answered: 0 };
  if (m.now - last.us < 190000) { // too short for a rate; the last message of a run says how it came out
    if (m.phase && last.us) Object.assign(last, { orders: m.numbers.orders, left: m.numbers.left });
    return Boolean(m.phase);
  }
  const q = (values, q) => values.sort((a, b) => a - b)[Math.max(0, Math.ceil(q * values.length) - 1)] ?? null;
  sale.points.push({
    us: m.now, ms: m.now / 1000, answered: m.numbers.answered, orders: m.numbers.orders, left: m.numbers.left,
    rps: (m.numbers.answered - last.answered) * 1e6 / Math.max(1, m.now - last.us),
    wait_p50_ms: q(sale.waited, 0.5), wait_p99_ms: q(sale.waited, 0.99), hold_p50_ms: q(sale.held, 0.5), hold_p99_ms: q(sale.held, 0.99),
  });
  sale.waited = [];
  sale.held = [];
  return true;
}

function slotsOf(lane) {
  if (!sale.slots.has(lane)) sale.slots.set(lane, []);
  return sale.slots.get(lane);
}

// visitsOf returns the requests of one lane, in the order in which they came.
function visitsOf(lane) { return (sale.byLane.get(lane) || []).map((o) => sale.visits.get(o)); }

const running = () => sale.phase === 'selling' || sale.phase === 'stopping';
const busy = () => running() || sale.phase === 'starting';
const guarded = () => sale.run.mode === 'lock' || sale.run.mode === 'fence';

// clock returns the time of the run at this moment, in µs.
function clock() {
  if (!running() || frozen) return Math.max(sale.now, sale.end);
  return sale.now + (performance.now() - sale.heardAt) * 1000;
}

// kind says what a request is drawn as.
function kind(v) {
  if (v.k === 'sold') return v.d ? 'double' : 'sold';
  if (v.k === 'sold_out') return 'none';
  if (v.k === 'late_write_refused') return 'shield';
  if (v.k) return 'refused';
  return v.h ? 'sold' : 'wait'; // at work
}

// isLate says that a write came after its lease had ended, and was not refused.
const isLate = (v) => v.k === 'sold' && v.l && v.d;

// --- writing ---

const byId = (id) => document.getElementById(id);

// make returns an element with this text or these children.
function make(tag, props, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(props || {})) {
    if (k.startsWith('data-') || k.startsWith('aria-')) e.setAttribute(k, v);
    else e[k] = v;
  }
  e.append(...children.filter((c) => c !== null && c !== undefined));
  return e;
}

const count = (n) => Math.round(n).toLocaleString('en');

// span writes a duration, given in ms.
function span(ms) {
  if (ms === null || ms === undefined || Number.isNaN(ms)) return '–';
  if (ms >= 10000) return (ms / 1000).toFixed(1) + ' s';
  if (ms >= 1000) return (ms / 1000).toFixed(2) + ' s';
  if (ms >= 100) return ms.toFixed(0) + ' ms';
  if (ms >= 10) return ms.toFixed(1) + ' ms';
  return ms.toFixed(2) + ' ms';
}


// table makes a table of rows of text.
function table(caption, heads, rows) {
  return make('table', {}, make('caption', { className: 'hidden' }, caption),
    make('thead', {}, make('tr', {}, ...heads.map((h) => make('th', { scope: 'col' }, h)))),
    make('tbody', {}, ...rows.map((r) => make('tr', {}, ...r.map((c) => make('td', {}, String(c)))))));
}

const reducedMotion = matchMedia('(prefers-reduced-motion: reduce)');
const dark = matchMedia('(prefers-color-scheme: dark)');

// colour reads a colour of the style sheet.
function colour(name) { return getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim(); }
