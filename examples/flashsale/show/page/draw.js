'use strict';
// Draws the timeline: each request is a line while it waits and a block while it is in its section, in a row of its own of
// its instance's lane. Under a lock there is never more than one block at a time.

const axis = 24; // px, below the lanes

// layout measures: where lanes are, and how thick rows.
function layout() {
  const head = parseFloat(getComputedStyle(byId('lanes')).getPropertyValue('--head')) || 0;
  const strip = head ? 0 : 36; // a head above each lane
  const lanes = sale.lanes.length ? sale.lanes : [{ name: '' }, { name: '' }, { name: '' }, { name: '' }];
  const rows = Math.max(5, ...lanes.map((l) => slotsOf(l.name).length));
  const body = Math.min(Math.max(rows * 7, 70), innerHeight < 900 ? 64 : 98); // a laptop's window shows all lanes
  const pitch = strip + body + 10;
  const width = canvas.clientWidth - head - 8;
  return { head, strip, lanes, rows, body, pitch, width, row: body / rows, height: pitch * lanes.length + axis };
}

function draw() {
  const l = layout(), ratio = devicePixelRatio || 1, wide = canvas.clientWidth;
  if (canvas.style.height !== l.height + 'px') canvas.style.height = l.height + 'px';
  if (canvas.width !== Math.round(wide * ratio) || canvas.height !== Math.round(l.height * ratio)) {
    canvas.width = Math.round(wide * ratio);
    canvas.height = Math.round(l.height * ratio);
  }
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  ctx.clearRect(0, 0, wide, l.height);
  const [from, to] = shown();
  const p = { l, from, to, x: (t) => l.head + (t - from) / (to - from) * l.width, c: palette(), now: clock() };
  drawGround(p);
  if (!sale.lanes.length) label(p, t('timeline.empty'), l.head + 16, top_(p, 0) + l.body / 2 + 4, p.c.muted);
  ctx.save();
  ctx.beginPath();
  ctx.rect(l.head, 0, l.width + 8, l.height);
  ctx.clip();
  drawMarks(p);
  l.lanes.forEach((lane, i) => drawLane(p, lane, i));
  drawSelected(p);
  ctx.restore();
}

const top_ = (p, i) => i * p.l.pitch + p.l.strip;

function drawGround(p) {
  const { l, c } = p;
  ctx.fillStyle = c.soft;
  l.lanes.forEach((_, i) => { ctx.beginPath(); ctx.roundRect(l.head, top_(p, i), l.width + 8, l.body, 6); ctx.fill(); });
  const every = gap((p.to - p.from) / Math.max(2, l.width / 110));
  ctx.font = '12px system-ui, sans-serif';
  ctx.textAlign = 'center';
  for (let t = Math.ceil(Math.max(0, p.from) / every) * every; t <= p.to; t += every) {
    const x = p.x(t);
    ctx.fillStyle = c.line;
    ctx.fillRect(Math.round(x), 0, 1, l.height - axis);
    ctx.fillStyle = c.muted;
    if (x < l.head + l.width - 12) ctx.fillText(every < 1e6 ? `${+(t / 1000).toFixed(2)} ms` : `${t / 1e6} s`, Math.max(x, l.head + 14), l.height - 6);
  }
}

// gap returns a round number of µs, not below least.
function gap(least) {
  const ten = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((k) => k * ten).find((g) => g >= least);
}

function drawMarks(p) {
  for (const m of sale.marks.values()) {
    const x = p.x(m.from), w = Math.max(2, p.x(m.to || p.now) - x);
    const i = p.l.lanes.findIndex((l) => l.name === m.i);
    if (m.k === 'cut') {
      ctx.fillStyle = p.c.cut;
      ctx.globalAlpha = 0.16;
      ctx.fillRect(x, 0, w, p.l.height - axis);
      ctx.globalAlpha = 1;
      edge(p.c.cut, x, 0, w, p.l.height - axis);
    } else if (m.k === 'paused' && i >= 0) {
      hatch(p.c.paused, x, top_(p, i), w, p.l.body, 7, 0.5);
      edge(p.c.paused, x, top_(p, i), w, p.l.body);
    } else if (m.k === 'killed' && i >= 0) {
      ctx.fillStyle = p.c.double;
      ctx.globalAlpha = 0.1;
      ctx.fillRect(x, top_(p, i), p.l.head + p.l.width + 8 - x, p.l.body);
      ctx.globalAlpha = 1;
      ctx.fillRect(x - 1, top_(p, i), 2, p.l.body);
      label(p, 'kill -9', x + 6, top_(p, i) + 15, p.c.double);
    }
  }
}

// box returns where the section of v is drawn.
function box(p, v, i) {
  const h = Math.max(1.5, p.l.row - 1);
  const y = top_(p, i) + (v.row % p.l.rows) * p.l.row + (p.l.row - h) / 2;
  const end = v.e || p.now;
  const x = p.x(v.h || end), w = v.h ? Math.max(kind(v) === 'none' ? 1.5 : 2, p.x(end) - x) : 0;
  return { x, y, w, h, from: p.x(v.c), end: p.x(end) };
}

function drawLane(p, lane, i) {
  const late = [];
  for (const v of visitsOf(lane.name)) {
    if ((v.e || p.now) < p.from || v.c > p.to) continue;
    const b = box(p, v, i), k = kind(v);
    ctx.fillStyle = p.c.wait;
    const thick = Math.max(1, b.h * 0.28);
    const until = v.h ? b.x : b.end;
    if (until - b.from > 0.5) ctx.fillRect(b.from, b.y + (b.h - thick) / 2, until - b.from, thick);
    if (v.h) drawSection(p, b, k);
    if (isLate(v) || k === 'shield' || k === 'refused') late.push([v, b, k]);
  }
  for (const [v, b, k] of late) drawSign(p, v, b, k, i);
}

function drawSection(p, b, k) {
  ctx.fillStyle = { sold: p.c.sold, double: p.c.double, none: p.c.none, shield: p.c.good, refused: p.c.cut }[k];
  if (k === 'shield') { // nothing came of it
    ctx.strokeStyle = ctx.fillStyle;
    ctx.lineWidth = 1.5;
    ctx.strokeRect(b.x, b.y + 0.5, b.w, b.h - 1);
    ctx.globalAlpha = 0.25;
  }
  ctx.fillRect(b.x, b.y, b.w, b.h);
  ctx.globalAlpha = 1;
  if (k === 'double' && b.w > 5 && b.h > 3) hatch(p.c['bad-soft'], b.x, b.y, b.w, b.h, 6, 0.75);
}

// drawSign draws what must not be overlooked: not by its colour alone.
function drawSign(p, v, b, k, i) {
  const x = b.end, y = Math.max(b.y + b.h / 2, top_(p, i) + 9);
  if (isLate(v)) {
    ctx.strokeStyle = p.c.double;
    ctx.lineWidth = 3.5;
    ctx.beginPath();
    ctx.moveTo(x - 7, y - 7); ctx.lineTo(x + 7, y + 7); ctx.moveTo(x + 7, y - 7); ctx.lineTo(x - 7, y + 7);
    ctx.stroke();
    label(p, t('legend.late'), x + 13, top_(p, i) + p.l.body - 7, p.c.double);
  } else if (k === 'shield') {
    ctx.beginPath();
    ctx.moveTo(x, y - 9); ctx.lineTo(x + 8, y - 6); ctx.lineTo(x + 7, y + 2); ctx.lineTo(x, y + 9); ctx.lineTo(x - 7, y + 2); ctx.lineTo(x - 8, y - 6);
    ctx.closePath();
    ctx.fillStyle = p.c.good;
    ctx.fill();
    label(p, t('legend.shield'), x + 13, top_(p, i) + p.l.body - 7, p.c.good);
  } else {
    ctx.fillStyle = p.c.cut;
    ctx.beginPath();
    ctx.moveTo(x, y - 4.5); ctx.lineTo(x + 4.5, y + 4); ctx.lineTo(x - 4.5, y + 4);
    ctx.fill();
  }
}

// drawSelected rings the selected section, and joins it to the one whose grant was in its way.
function drawSelected(p) {
  const v = sale.visits.get(view.selected);
  const i = v ? p.l.lanes.findIndex((l) => l.name === v.i) : -1;
  if (i < 0 || !v.c) return;
  const b = box(p, v, i);
  ctx.strokeStyle = p.c.focus;
  ctx.lineWidth = 2;
  ctx.strokeRect(b.x - 2, b.y - 2, b.w + 4, b.h + 4);
  ctx.fillStyle = p.c.focus;
  ctx.fillRect(b.from, b.y + b.h / 2 - 1, Math.max(0, b.x - b.from), 2);
  const h = sale.visits.get(v.b), j = h ? p.l.lanes.findIndex((l) => l.name === h.i) : -1;
  if (j < 0 || !h.h) return;
  const hb = box(p, h, j);
  ctx.setLineDash([5, 4]);
  ctx.beginPath();
  ctx.moveTo(b.x, b.y + b.h / 2);
  ctx.bezierCurveTo(b.x - 40, b.y, hb.x - 40, hb.y, hb.x, hb.y + hb.h / 2);
  ctx.stroke();
  ctx.strokeRect(hb.x - 2, hb.y - 2, hb.w + 4, hb.h + 4);
  ctx.setLineDash([]);
}

// hit returns the order that is drawn at a point, or the nearest.
function hit(x, y) {
  const l = layout(), [from, to] = shown();
  const p = { l, from, to, x: (t) => l.head + (t - from) / (to - from) * l.width, now: clock() };
  const i = Math.floor(y / l.pitch);
  if (!l.lanes[i]) return '';
  let best = '', least = 14; // px
  for (const v of visitsOf(l.lanes[i].name)) {
    const b = box(p, v, i);
    const left = v.h ? b.x : b.from;
    const dx = Math.max(left - x, x - Math.max(b.x + b.w, b.end), 0), dy = Math.max(b.y - y, y - b.y - b.h, 0);
    const far = Math.hypot(dx, dy);
    if (far < least) { least = far; best = v.o; }
  }
  return best;
}

// The timeline moves by itself while somebody sells, or with each message for those who asked for less motion. A long one
// is drawn less often, so that the page has time for people.
let stale = true, drawnAt = 0, cost = 0;
function frame(at) {
  if ((stale || (running() && !reducedMotion.matches)) && at - drawnAt > Math.max(45, 4 * cost)) {
    const began = performance.now();
    stale = false;
    drawnAt = at;
    draw();
    cost = performance.now() - began;
  }
  requestAnimationFrame(frame);
}
watchers.push((changed) => {
  if (changed.run) Object.assign(view, { at: null, selected: '', width: 0 });
  if (changed.run) markZoom(0);
  stale = true;
});
new ResizeObserver(draw).observe(byId('lanes'));
requestAnimationFrame(frame);
