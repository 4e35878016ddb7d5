'use strict';
// Where messages come from: the program, through a worker that all tabs share (a browser opens six connections to one
// place and no more), or this very file, if a run is frozen in it.

function freeze() {
  document.body.classList.add('frozen');
  byId('controls').hidden = true;
  document.querySelector('nav').hidden = true;
  tell(JSON.parse(frozen.textContent));
}

// showNote says why nothing can be touched here.
function showNote() {
  byId('frozen-note').hidden = mayTouch;
  byId('frozen-note').textContent = frozen ? t('frozen.about', { started: sale.run.started }) : t('frozen.look');
}
watchers.push(showNote);

function heard(message) {
  gone = Boolean(message.lost);
  if (gone) {
    showStatus('lost');
    showControls({});
    showHeads();
    return;
  }
  tell(message.texts.map((t) => JSON.parse(t)));
}

function listen() {
  if (!window.SharedWorker) {
    const source = new EventSource('events');
    source.onmessage = (e) => heard({ texts: [e.data] });
    source.onerror = () => heard({ lost: true });
    return;
  }
  const worker = new SharedWorker('worker.js', { name: 'flashsale' });
  worker.port.onmessage = (e) => heard(e.data);
  worker.port.start();
  addEventListener('pagehide', () => worker.port.postMessage('bye'));
  addEventListener('pageshow', (e) => { if (e.persisted) worker.port.postMessage('hello'); });
  worker.port.postMessage('hello');
}

fillTexts();
tell([]);
if (frozen) freeze();
else listen();
