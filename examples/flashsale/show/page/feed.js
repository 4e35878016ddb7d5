'use strict';
// Where messages come from: the program, through a worker that all tabs share (a browser opens six connections to one
// place and no more), or this very file, if a run is frozen in it.

function freeze() {
  document.body.classList.add('frozen');
  byId('controls').hidden = true;
  document.querySelector('nav').hidden = true;
  tell(JSON.parse(frozen.textContent));
  byId('frozen-note').hidden = false;
  byId('frozen-note').textContent = `A run of ${sale.run.started}, as the page showed it when it had ended. It was played by real processes; nothing moves here any more.`;
}

function heard(message) {
  gone = Boolean(message.lost);
  if (gone) {
    showStatus('the program has ended');
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

if (!mayTouch && !frozen) {
  byId('frozen-note').hidden = false;
  byId('frozen-note').textContent = 'You can look, but not touch: open the whole URL that the program has printed.';
}
if (frozen) freeze();
else listen();
