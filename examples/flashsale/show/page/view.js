'use strict';
// The stretch of time that the timeline shows, and how people move it.

const view = {
  width: 0, // µs shown; 0: all of the run
  at: null, // the right edge, µs; null: follows the run
  selected: '', // an order
};

// shown returns the two ends of the stretch, in µs.
function shown() {
  const end = Math.max(clock(), 1000);
  if (!sale.visits.size) return [0, 2e6];
  if (!view.width) return [0, running() ? Math.max(end * 1.04, 1.5e6) : end * 1.02];
  const right = view.at === null ? Math.max(end, view.width) : view.at;
  return [right - view.width, right];
}

// zoom shows so many µs, around the selected section if there is one.
function zoom(width) {
  const [from, to] = shown();
  const whole = Math.max(clock(), 1000);
  const v = sale.visits.get(view.selected);
  let middle = (from + to) / 2;
  if (v && v.h) middle = v.h;
  view.width = width >= whole ? 0 : Math.max(width, 2000);
  view.at = running() && !v ? null : Math.min(whole + view.width * 0.1, Math.max(view.width, middle + view.width / 2));
  markZoom(width);
}

function markZoom(width) {
  for (const b of document.querySelectorAll('[data-zoom]')) {
    b.setAttribute('aria-pressed', String((view.width ? width : 0) === b.dataset.zoom * 1000));
  }
}

// pan moves the stretch by so many µs.
function pan(by) {
  if (!view.width) return;
  const [, right] = shown();
  view.at = Math.min(Math.max(right + by, view.width * 0.5), clock() + view.width * 0.5);
}

for (const b of document.querySelectorAll('[data-zoom]')) {
  b.addEventListener('click', () => { zoom(b.dataset.zoom * 1000); draw(); });
}

const canvas = byId('timeline');
let grabbed = null;
canvas.addEventListener('pointerdown', (e) => { grabbed = { x: e.offsetX, y: e.offsetY, moved: false }; });
canvas.addEventListener('pointermove', (e) => {
  if (!grabbed || !view.width) return;
  if (!grabbed.moved && Math.abs(e.offsetX - grabbed.x) < 4) return;
  const [from, to] = shown();
  pan((grabbed.x - e.offsetX) * (to - from) / layout().width);
  Object.assign(grabbed, { x: e.offsetX, moved: true });
  draw();
});
addEventListener('pointerup', (e) => {
  if (grabbed && !grabbed.moved && e.target === canvas) select(hit(e.offsetX, e.offsetY));
  grabbed = null;
});

canvas.addEventListener('keydown', (e) => {
  const [from, to] = shown();
  const keys = {
    ArrowRight: () => step(1), ArrowLeft: () => step(-1), ArrowDown: () => hop(1), ArrowUp: () => hop(-1),
    '+': () => zoom((to - from) / 2), '=': () => zoom((to - from) / 2), '-': () => zoom((to - from) * 2),
    Escape: () => select(''),
  };
  if (!keys[e.key] || e.ctrlKey || e.metaKey || e.altKey) return;
  e.preventDefault();
  keys[e.key]();
  draw();
});

// sections returns the requests of a lane that have had a section, by its start.
function sections(lane) { return visitsOf(lane).filter((v) => v.h).sort((a, b) => a.h - b.h); }

// step goes to the next section of the lane.
function step(by) {
  const v = sale.visits.get(view.selected);
  const lane = v ? v.i : sale.lanes.length && sale.lanes[0].name;
  const all = sections(lane);
  if (!all.length) return;
  const i = v ? all.findIndex((s) => s.o === v.o) + by : 0;
  reveal(all[Math.min(Math.max(i, 0), all.length - 1)].o);
}

// hop goes to the section of the next lane that is nearest in time.
function hop(by) {
  const v = sale.visits.get(view.selected);
  if (!v) { step(1); return; }
  const i = sale.lanes.findIndex((l) => l.name === v.i) + by;
  if (!sale.lanes[i]) return;
  const near = sections(sale.lanes[i].name).sort((a, b) => Math.abs(a.h - v.h) - Math.abs(b.h - v.h))[0];
  if (near) reveal(near.o);
}

// reveal selects an order and brings it into the stretch.
function reveal(order) {
  const v = sale.visits.get(order), [from, to] = shown();
  if (v && view.width && (v.h < from || v.h > to)) view.at = v.h + view.width / 2;
  select(order);
}
