'use strict';
// The heads of the lanes, one request in full, and the table behind the timeline.

const outcomes = {
  sold: 'sold', sold_out: 'sold out, nothing was left', late_write_refused: 'its late write was refused', no_answer: 'no answer: its instance died',
  lock_held: 'refused: it waited too long', lock_queue_full: 'refused: the line was too long', lock_unavailable: 'refused: Redis is away',
  lock_lost: 'failed: the lease was lost under it', failed: 'failed: the outcome is not known', lock_wait_aborted: 'gave up waiting',
};

function outcome(v) {
  if (isLate(v)) return 'sold, by a late write that nothing stopped';
  if (v.d) return 'sold, a lamp that was sold already';
  return outcomes[v.k] || v.k || (v.h ? 'is in its section' : 'waits');
}

function select(order) {
  view.selected = order;
  showDetails();
  draw();
}

function showDetails() {
  const v = sale.visits.get(view.selected), e = byId('details');
  e.hidden = !v;
  if (!v) return;
  const row = (what, ...value) => make('div', {}, make('dt', {}, what), make('dd', {}, ...value));
  const ms = (from, to) => span((to - from) / 1000);
  const rows = [row('Outcome', outcome(v)), row('Came', span(v.c / 1000))];
  if (guarded()) {
    rows.push(row('Waited', v.h ? ms(v.c, v.h) : ms(v.c, v.e || clock())));
    rows.push(row('Behind', v.b ? link(v.b, "order " + v.b + laneOf(v.b)) : 'nobody'));
    if (v.h) rows.push(row('Got its turn', v.f ? 'from a request of its own instance, without asking Redis' : `from Redis, after ${plural(v.a || 1, 'try', 'tries')}`));
  }
  if (v.h) rows.push(row(guarded() ? 'Held the key for' : 'Was in the step for', ms(v.h, v.e || clock())));
  if (guarded()) rows.push(row('Fencing token', v.t ? String(v.t) : 'none in this mode'));
  if (v.n) rows.push(row('Redis had seen token', String(v.n)));
  if (v.r !== undefined) rows.push(row('Read stock', String(v.r)));
  if (v.s !== undefined) rows.push(row('Wrote stock', String(v.s)));
  if (v.d) rows.push(row('The same lamp went to', link(v.d, 'order ' + v.d + laneOf(v.d))));
  if (v.l) rows.push(row('Its lease was lost', span(v.l / 1000)));
  const is = make('dl', {}, ...rows);
  if (e.dataset.order === v.o && e.lastChild.textContent === is.textContent) return; // somebody may be in it with the keyboard
  e.dataset.order = v.o;
  e.replaceChildren(make('h3', {}, `Order ${v.o} at ${v.i}`), is);
}

const laneOf = (order) => (sale.visits.has(order) ? ' at ' + sale.visits.get(order).i : '');

// link goes to another request; behind is the grant that it began with.
function link(order, text) {
  if (!sale.visits.has(order)) return text;
  return make('button', { type: 'button', onclick: () => { reveal(order); byId('details').querySelector('button')?.focus(); } }, text);
}

function showHeads() {
  const l = layout(), within = document.activeElement.closest('.lane-head');
  byId('lane-heads').replaceChildren(...sale.lanes.map((lane, i) => {
    const head = make('div', { className: 'lane-head', 'data-lane': lane.name, 'data-state': lane.state },
      make('p', {}, make('b', {}, lane.name), make('span', { className: 'state' }, { up: '', paused: 'paused', gone: 'dead' }[lane.state]), make('span', {}, `pid ${lane.pid}`)));
    if (fateAllowed() && lane.state !== 'gone') head.append(buttonsOf(lane));
    head.style.top = i * l.pitch + 'px';
    head.style.height = (l.strip || l.body) + 'px';
    return head;
  }));
  if (within) document.querySelector(`.lane-head[data-lane="${within.dataset.lane}"] button`)?.focus();
}

function buttonsOf(lane) {
  const press = (what, text) => make('button', {
    type: 'button', 'aria-label': `${text} ${lane.name}`, onclick: () => post(what, { instance: lane.name }),
  }, text);
  return make('div', { className: 'row' },
    !sale.run.can_stop ? null : lane.state === 'paused' ? press('continue', 'Continue') : press('pause', 'Pause'), press('kill', 'Kill'));
}

// showRequests fills the table only while somebody looks at it.
function showRequests() {
  const e = byId('requests');
  if (!e.open) return;
  const rows = [...sale.visits.values()].filter((v) => v.c).sort((a, b) => b.c - a.c).slice(0, 200).map((v) => [
    v.o, v.i, span(v.c / 1000), guarded() ? span(((v.h || v.e || clock()) - v.c) / 1000) : '–', v.h ? span(((v.e || clock()) - v.h) / 1000) : '–',
    v.t || '–', v.b || '–', v.r ?? '–', v.s ?? '–', outcome(v)]);
  e.querySelector('.scroll').replaceChildren(table('The latest 200 requests',
    ['order', 'instance', 'came', 'wait', 'section', 'token', 'behind order', 'read', 'wrote', 'outcome'], rows));
}
byId('requests').addEventListener('toggle', showRequests);

let headPitch = 0;
watchers.push((changed) => {
  const pitch = layout().pitch;
  if (changed.lanes || changed.end || pitch !== headPitch) showHeads();
  headPitch = pitch;
  showHolder();
  showDetails();
  showRequests();
});
addEventListener('resize', showHeads);
