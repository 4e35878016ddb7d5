'use strict';
// The heads of the lanes, one request in full, and the table behind the timeline.

function outcome(v) {
  if (isLate(v)) return t('outcome.late');
  if (v.d) return t('outcome.double');
  return v.k ? t('outcome.' + v.k) : t(v.h ? 'outcome.section' : 'outcome.waits');
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
  const rows = [row(t('detail.outcome'), outcome(v)), row(t('detail.came'), span(v.c / 1000))];
  if (guarded()) {
    rows.push(row(t('detail.waited'), v.h ? ms(v.c, v.h) : ms(v.c, v.e || clock())));
    rows.push(row(t('detail.behind'), v.b ? link(v.b, orderAt(v.b)) : t('detail.nobody')));
    if (v.h) rows.push(row(t('detail.turn'), v.f ? t('detail.handoff') : t('detail.redis', { n: count(v.a || 1) })));
  }
  if (v.h) rows.push(row(t(guarded() ? 'detail.held' : 'detail.step'), ms(v.h, v.e || clock())));
  if (guarded()) rows.push(row(t('detail.token'), v.t ? String(v.t) : t('detail.notoken')));
  if (v.n) rows.push(row(t('detail.newest'), String(v.n)));
  if (v.r !== undefined) rows.push(row(t('detail.read'), String(v.r)));
  if (v.s !== undefined) rows.push(row(t('detail.wrote'), String(v.s)));
  if (v.d) rows.push(row(t('detail.double'), link(v.d, orderAt(v.d))));
  if (v.l) rows.push(row(t('detail.lost'), span(v.l / 1000)));
  const is = make('dl', {}, ...rows);
  if (e.dataset.order === v.o && e.lastChild?.textContent === is.textContent) return; // somebody may be in it with the keyboard
  e.dataset.order = v.o;
  e.replaceChildren(make('h3', {}, orderAt(v.o)), is);
}

const orderAt = (order) => (sale.visits.has(order) ? t('detail.order', { order, name: sale.visits.get(order).i }) : t('detail.alone', { order }));

// link goes to another request; behind is the grant that it began with.
function link(order, text) {
  if (!sale.visits.has(order)) return text;
  return make('button', { type: 'button', onclick: () => { reveal(order); byId('details').querySelector('button')?.focus(); } }, text);
}

function showHeads() {
  const l = layout(), within = document.activeElement.closest('.lane-head');
  byId('lane-heads').replaceChildren(...sale.lanes.map((lane, i) => {
    const head = make('div', { className: 'lane-head', 'data-lane': lane.name, 'data-state': lane.state },
      make('p', {}, make('b', {}, lane.name), make('span', { className: 'state' }, lane.state === 'up' ? '' : t('lane.' + lane.state)), make('span', {}, `pid ${lane.pid}`)));
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
    !sale.run.can_stop ? null : lane.state === 'paused' ? press('continue', t('lane.continue')) : press('pause', t('lane.pause')), press('kill', t('lane.kill')));
}

// showRequests fills the table only while somebody looks at it.
function showRequests() {
  const e = byId('requests');
  if (!e.open) return;
  const rows = [...sale.visits.values()].filter((v) => v.c).sort((a, b) => b.c - a.c).slice(0, 200).map((v) => [
    v.o, v.i, span(v.c / 1000), guarded() ? span(((v.h || v.e || clock()) - v.c) / 1000) : '–', v.h ? span(((v.e || clock()) - v.h) / 1000) : '–',
    v.t || '–', v.b || '–', v.r ?? '–', v.s ?? '–', outcome(v)]);
  e.querySelector('.scroll').replaceChildren(table(t('requests.summary'),
    ['order', 'instance', 'came', 'wait', 'section', 'token', 'behind', 'read', 'wrote', 'outcome'].map((k) => t('column.' + k)), rows));
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
