'use strict';
// The numbers, the sentence above them, the key, what happened, and the report.

const acts = ['', 'No lock', 'A lock', 'What a lock cannot do', 'The fencing token', 'No lock needed'];

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
  byId('reasons').textContent = reasons(n.refused_by_reason) || 'a clear no';
  byId('caveat').textContent = sale.result ? 'over the whole run' : 'in the last second';
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

const words = {
  sold_out: 'sold out', lock_held: 'waited too long', lock_queue_full: 'line too long', lock_unavailable: 'Redis away',
  lock_wait_aborted: 'gave up', late_write_refused: 'late write',
};

function reasons(by) {
  return Object.entries(by || {}).sort((a, b) => b[1] - a[1]).map(([code, k]) => `${count(k)} ${words[code] || code}`).join(', ');
}

function showTitle() {
  const r = sale.run;
  byId('score-title').textContent = r.id === 0 ? 'Nothing has been sold yet' : r.act ? `Act ${r.act}: ${acts[r.act]}` : `A sale with mode ${r.mode}`;
  byId('setup').textContent = r.id === 0 ? '' :
    `${r.instances} instances · ${count(r.stock)} lamps · ${count(r.requests)} requests of ${count(r.buyers)} buyers · price takes ${span(r.think / 1e6)} · lease ${span(r.ttl / 1e6)}`;
  for (const e of document.querySelectorAll('[data-ttl]')) e.textContent = (r.ttl || 2e9) / 1e9;
}

// verdict says in one sentence what is to be seen, and how good that is.
function verdict(n) {
  const harm = [];
  if (n.oversold > 0) harm.push(`${plural(n.oversold, 'lamp')} sold that ${n.oversold === 1 ? 'does' : 'do'} not exist`);
  if (n.lost_updates) harm.push(`${plural(n.lost_updates, 'sale')} forgotten by the count`);
  const over = sale.phase === 'ended';
  if (sale.error) return ['', over ? 'The run ended: ' + sale.error + '.' : sale.error];
  if (sale.phase === 'idle') return ['', frozen ? '' : 'Choose an act above, or start a sale of your own.'];
  if (sale.phase === 'starting') return ['', 'Starting the instances, each a process of its own …'];
  if (harm.length) return ['bad', harm.join(', ') + '.'];
  if (!over) return ['', n.orders ? `So far ${plural(n.orders, 'order')} for ${plural(n.orders, 'lamp')}: right.` : 'The doors are open …'];
  if (sale.missed.length) return ['bad', sale.missed.join(', ') + '.'];
  const late = n.late_writes_refused ? ` ${plural(n.late_writes_refused, 'late write')} refused by the token.` : '';
  if (sale.run.mode === 'none') return ['', 'No harm done, by luck: nothing kept two instances apart.'];
  return ['good', `${plural(n.orders, 'order')} for ${plural(n.orders, 'lamp')}, and none sold twice.${late}`];
}

function showVerdict(n) {
  const [tone, text] = verdict(n);
  const e = byId('verdict');
  e.dataset.tone = tone;
  e.setAttribute('aria-live', sale.phase === 'ended' ? 'polite' : 'off'); // a voice would never come to its end
  if (e.textContent !== text) e.textContent = text;
  byId('moral').textContent = sale.result && sale.run.act ? morals[sale.run.act](sale.result) : '';
}

const took = {}; // seconds, by act, for those that were seen here

// morals say what an act has shown.
const morals = [null,
  () => 'This is why a lock is needed: nobody did anything wrong, and the shop has sold what it does not have.',
  (r) => `This is what it costs: half of the requests waited for ${span(r.wait_p50_ms)} or longer, because only one at a time may ask for the price.`,
  () => 'No lock service can prevent this: a lease ends by the clock, and a process that does not run cannot look at a clock. (Its last step ignores its cancelled context here, to show every time what is rare otherwise.)',
  () => 'The lock is the same, and it failed in the same way. But now Redis itself refuses what comes too late.',
  (r) => `It took ${span(r.seconds * 1000)}${took[2] ? `, and act 2 ${span(took[2] * 1000)}: most of that is the price call, which this step leaves out` : ''}. ` +
    'It could not ask for the price: the lock is for the step that does not fit into one script.',
];

function showQuantiles() {
  const last = [...sale.points].reverse();
  const recent = { wait_p50_ms: 'w50', wait_p99_ms: 'w99', hold_p50_ms: 'h50', hold_p99_ms: 'h99' };
  for (const e of document.querySelectorAll('[data-q]')) {
    const now = last.find((p) => p[recent[e.dataset.q]] !== null);
    const ms = sale.result ? sale.result[e.dataset.q] : now && now[recent[e.dataset.q]];
    e.textContent = guarded() ? span(ms) : '–';
    e.dataset.value = sale.result ? ms : '';
  }
  byId('plots-note').textContent = sale.run.id && !guarded() ?
    'Nothing is locked in this mode, so nobody waits for a key.' :
    'A lock makes buyers wait. A wait is the time until a request has the key, a hold is the time for which it keeps it.';
}

const phases = { idle: 'ready', starting: 'starting', selling: 'selling', stopping: 'stopping', ended: 'ended' };

function showStatus(lost) {
  byId('phase').textContent = lost || (frozen ? 'recorded' : phases[sale.phase]);
  byId('status').dataset.phase = lost ? 'lost' : frozen ? 'ended' : sale.phase;
}

function showSaid() {
  byId('said').replaceChildren(...sale.said.map((s) => make('li', {}, make('time', {}, span(s.ms)), make('span', {}, s.text))));
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
  if (!running()) return guarded() || !sale.run.id ? 'Nobody holds the key.' : 'There is no key in this mode.';
  if (!guarded()) return `There is no key in this mode: ${plural(holders.length, 'request is', 'requests are')} in the step at once.`;
  const paused = new Set(sale.lanes.filter((l) => l.state === 'paused').map((l) => l.name));
  const awake = holders.filter((v) => !paused.has(v.i)), asleep = holders.filter((v) => paused.has(v.i));
  const parts = awake.map((v) => `${v.i} holds the key for order ${v.o}${v.t ? `, token ${v.t}` : ''}`);
  parts.push(...asleep.map((v) => `${v.i} is paused with order ${v.o}${v.t ? `, token ${v.t}` : ''}, and would say that it holds the key`));
  if (!parts.length) parts.push('Nobody holds the key');
  return `${parts.join('; ')}. ${plural(waiting.length, 'request waits', 'requests wait')}.`;
}

function showReport() {
  const rows = Object.entries(sale.result || {}).map(([k, v]) => [k, typeof v === 'object' ? JSON.stringify(v) : v]);
  byId('report').querySelector('.scroll').replaceChildren(rows.length ? table('The report', ['what', 'value'], rows) : make('p', { className: 'muted' }, 'No run has ended yet.'));
}
