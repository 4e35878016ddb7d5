'use strict';
// The buttons. What they do comes back with the messages; here is only the asking.

const token = new URLSearchParams(location.search).get('token');
const mayTouch = Boolean(token) && !frozen;

async function post(what, body) {
  trouble('');
  try {
    const answer = await fetch(`api/${what}?token=${encodeURIComponent(token)}`, { method: 'POST', body: JSON.stringify(body || {}) });
    if (!answer.ok) trouble(told((await answer.json()).error));
    return answer.ok;
  } catch {
    trouble(t('error.answer'));
    return false;
  }
}

function trouble(text) {
  byId('trouble').hidden = !text;
  byId('trouble').textContent = text;
}

let gone = false; // the program has ended

// fateAllowed says whether people may meddle with the instances now.
const fateAllowed = () => mayTouch && !gone && sale.phase === 'selling' && sale.run.act === 0;

function showControls(changed) {
  for (const b of document.querySelectorAll('[data-act]')) {
    b.disabled = !mayTouch || gone || busy() || (!sale.run.can_stop && (b.dataset.act === '3' || b.dataset.act === '4'));
    b.toggleAttribute('aria-current', Number(b.dataset.act) === sale.run.act);
  }
  for (const b of document.querySelectorAll('[data-fate]')) {
    b.disabled = !fateAllowed() || (!sale.run.can_stop && (b.dataset.fate === 'pause' || b.dataset.fate === 'continue')) ||
      (b.dataset.fate === 'continue' && !sale.lanes.some((l) => l.state === 'paused')) ||
      (['pause', 'kill'].includes(b.dataset.fate) && sale.run.mode === 'atomic');
  }
  if (changed.run) {
    const current = document.querySelector('[data-act][aria-current]');
    if (current) byId('acts').scrollLeft = current.parentElement.offsetLeft - byId('acts').offsetLeft - 8;
  }
  byId('start').disabled = !mayTouch || gone || busy();
  byId('stop').disabled = !mayTouch || gone || !running();
  byId('reset').disabled = !mayTouch || gone || (sale.phase === 'idle');
  byId('save').hidden = Boolean(frozen) || sale.phase !== 'ended';
}

for (const b of document.querySelectorAll('[data-act]')) {
  b.addEventListener('click', async () => {
    if (await post('act', { act: Number(b.dataset.act) })) byId('score').scrollIntoView({ block: 'nearest', behavior: reducedMotion.matches ? 'auto' : 'smooth' });
  });
}

const own = byId('own');
own.addEventListener('submit', (e) => {
  e.preventDefault();
  const f = new FormData(own);
  post('start', {
    mode: f.get('mode'), deaf: f.get('deaf') === 'on', stock: Number(f.get('stock')), buyers: Number(f.get('buyers')),
    requests: Number(f.get('requests')), think: Math.round(Number(f.get('think_ms')) * 1e6),
  });
});
byId('stop').addEventListener('click', () => post('stop'));
byId('reset').addEventListener('click', () => post('reset'));

for (const b of document.querySelectorAll('[data-fate]')) {
  b.addEventListener('click', () => {
    const what = b.dataset.fate;
    if (what === 'cut') post('cut', { seconds: Number(byId('cut-seconds').value) });
    else if (what === 'spawn') post('spawn');
    else if (what === 'continue') sale.lanes.filter((l) => l.state === 'paused').forEach((l) => post('continue', { instance: l.name }));
    else post(what, { instance: 'holder' });
  });
}

// The controls start as the sale of one's own that is on, or else as the command line has it.
let filled = false;
function fillForm() {
  if (filled || !sale.run.mode) return;
  filled = true;
  const from = sale.run.act ? sale.run.own : sale.run;
  own.elements.mode.value = from.mode;
  own.elements.deaf.checked = from.deaf;
  own.elements.think_ms.value = from.think / 1e6;
  for (const name of ['stock', 'buyers', 'requests']) own.elements[name].value = from[name];
}

watchers.push((changed) => { fillForm(); showControls(changed); });
