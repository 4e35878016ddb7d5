'use strict';
// The numbers, the sentence above them, the key, what happened, and the report.

function showScore(changed) {
  if (sale.result) took[sale.run.act] = sale.result.seconds;
  const n = sale.numbers || {};
  const values = { ...n, stock: sale.run.stock, rps: rate() };
  for (const e of document.querySelectorAll('[data-n]')) {
    const value = values[e.dataset.n] || 0;
    e.textContent = count(value);
    e.dataset.value = value;
    if ('bad' in e.dataset) e.closest('.tile').dataset.tone = value !== 0 ? 'bad' : '';
    if (e.dataset.n === 'late_writes_refused') e.closest('.tile').dataset.tone = value > 0 ? 'good' : '';
  }
  const whole = Math.max(sale.run.stock, n.orders || 0, 1);
  byId('bar-sold').style.width = 100 * Math.min(n.orders || 0, sale.run.stock) / whole + '%';
  byId('bar-over').style.width = 100 * (n.oversold || 0) / whole + '%';
  byId('tile-sold').textContent = t('tile.sold', { stock: count(sale.run.stock) });
  byId('reasons').textContent = t('tile.refused.sub', { reasons: reasons(n.refused_by_reason) || t('tile.refused.none'), errors: count(n.errors || 0) });
  byId('caveat').textContent = t(sale.result ? 'tile.rps.over' : 'tile.rps.now');
  showTitle();
  showVerdict(n);
  showQuantiles();
  showStatus();
  if (changed.said) showSaid();
  if (changed.run || changed.end) showReport();
}
watchers.push(showScore);

// rate is what the report says, once it is there.
function rate() {
  if (sale.result) return sale.result.rps;
  const last = sale.points.slice(-5);
  return last.length ? last.reduce((sum, p) => sum + p.rps, 0) / last.length : 0;
}

function reasons(by) {
  return Object.entries(by || {}).sort((a, b) => b[1] - a[1]).map(([code, k]) => t('reason', { n: count(k), code: t('reason.' + code) })).join(t('comma'));
}

function showTitle() {
  const r = sale.run;
  byId('score-title').textContent = r.id === 0 ? t('score.none') : r.act ? t('score.act', { act: r.act, title: t('act' + r.act) }) : t('score.own', { mode: r.mode });
  byId('setup').textContent = r.id === 0 ? '' : t('score.setup', {
    instances: r.instances, stock: count(r.stock), requests: count(r.requests), buyers: count(r.buyers), think: span(r.think / 1e6), ttl: span(r.ttl / 1e6) });
  byId('fate-pause').textContent = t('fate.pause.about', { ttl: (r.ttl || 2e9) / 1e9 });
}

// verdict says in one sentence what is to be seen, and how good that is.
function verdict(n) {
  const harm = [];
  if (n.oversold > 0) harm.push(t('verdict.oversold', { n: count(n.oversold) }));
  if (n.lost_updates) harm.push(t('verdict.lost', { n: count(n.lost_updates) }));
  const over = sale.phase === 'ended', lamps = { n: count(n.orders || 0) };
  if (sale.error) return ['', t('verdict.ended', { why: told(sale.error) })];
  if (sale.phase === 'idle') return ['', frozen ? '' : t('verdict.idle')];
  if (sale.phase === 'starting') return ['', t('verdict.starting')];
  if (harm.length) return ['bad', t('verdict.stop', { text: harm.join(t('comma')) })];
  if (!over) return ['', n.orders ? t('verdict.sofar', lamps) : t('verdict.open')];
  if (sale.missed.length) return ['bad', t('verdict.stop', { text: sale.missed.map(told).join(t('comma')) })];
  if (sale.run.mode === 'none') return ['', t('verdict.luck')];
  return ['good', t('verdict.good', lamps) + (n.late_writes_refused ? t('verdict.late', { n: count(n.late_writes_refused) }) : '')];
}

function showVerdict(n) {
  const [tone, text] = verdict(n);
  const e = byId('verdict');
  e.dataset.tone = tone;
  e.setAttribute('aria-live', sale.phase === 'ended' ? 'polite' : 'off'); // a voice would never come to its end
  if (e.textContent !== text) e.textContent = text;
  byId('moral').textContent = moral(sale.result);
}

const took = {}; // seconds, by act, for those that were seen here

// moral says what an act has shown.
function moral(r) {
  const act = sale.run.act;
  if (!r || !act) return '';
  const args = { wait: span(r.wait_p50_ms), took: span(r.seconds * 1000), lock: span((took[2] || 0) * 1000) };
  return t(act === 5 && took[2] ? 'act5.moral.beside' : `act${act}.moral`, args);
}

function showQuantiles() {
  const last = [...sale.points].reverse();
  for (const e of document.querySelectorAll('[data-q]')) {
    const now = sale.result || last.find((p) => p[e.dataset.q]);
    const ms = now && now[e.dataset.q];
    e.textContent = guarded() ? span(ms) : '–';
    e.dataset.value = sale.result ? ms : '';
  }
  byId('plots-note').textContent = t(sale.run.id && !guarded() ? 'plots.nolock' : 'plots.about');
}

function showStatus(lost) {
  byId('phase').textContent = t('phase.' + (lost || (frozen ? 'recorded' : sale.phase)));
  byId('status').dataset.phase = lost ? 'lost' : frozen ? 'ended' : sale.phase;
}

function showSaid() {
  byId('said').replaceChildren(...sale.said.map((s) => make('li', {}, make('time', {}, span(s.ms)), make('span', { 'data-tone': s.tone || '' }, told(s)))));
}

// showHolder says who holds the key, as those say who think that they do.
function showHolder() {
  const open = [...sale.visits.values()].filter((v) => v.c && !v.e);
  const holders = open.filter((v) => v.h), waiting = open.filter((v) => !v.h);
  const e = byId('holder');
  e.toggleAttribute('data-held', guarded() && holders.length > 0 && running());
  for (const head of document.querySelectorAll('.lane-head')) {
    head.toggleAttribute('data-holds', guarded() && running() && holders.some((v) => v.i === head.dataset.lane));
  }
  byId('holder-text').textContent = holderText(holders, waiting);
}

function holderText(holders, waiting) {
  if (!running()) return t(guarded() || !sale.run.id ? 'holder.none' : 'holder.nokey');
  if (!guarded()) return t('holder.step', { n: count(holders.length) });
  const paused = new Set(sale.lanes.filter((l) => l.state === 'paused').map((l) => l.name));
  const says = (v) => t(paused.has(v.i) ? 'holder.paused' : 'holder.holds', { name: v.i, order: v.o, token: v.t ? t('holder.token', { token: v.t }) : '' });
  const sorted = holders.filter((v) => !paused.has(v.i)).concat(holders.filter((v) => paused.has(v.i)));
  const who = sorted.length ? t('holder.stop', { text: sorted.map(says).join(t('semicolon')) }) : t('holder.none');
  return t('holder.waiting', { who, n: count(waiting.length) });
}

function showReport() {
  const rows = Object.entries(sale.result || {}).map(([k, v]) => [k, typeof v === 'object' ? JSON.stringify(v) : v]);
  byId('report').querySelector('.scroll').replaceChildren(rows.length ? table(t('report.heading'), [t('report.what'), t('report.value')], rows) : make('p', { className: 'muted' }, t('report.none')));
}
