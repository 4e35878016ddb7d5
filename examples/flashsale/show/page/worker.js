'use strict';
// One stream for all tabs of the page. It keeps the messages of the run on stage for tabs that come late.

let log = [];
let lost = false;
const ports = new Set();

const source = new EventSource('events');
source.onmessage = (e) => {
  lost = false;
  if (e.data.startsWith('{"run":')) log = [];
  log.push(e.data);
  for (const p of ports) p.postMessage({ texts: [e.data] });
};
source.onerror = () => { // it tries again by itself, and then hears everything from the beginning
  lost = true;
  for (const p of ports) p.postMessage({ lost });
};

onconnect = (e) => {
  const port = e.ports[0];
  port.onmessage = (m) => {
    if (m.data === 'bye') {
      ports.delete(port);
      return;
    }
    ports.add(port);
    if (log.length) port.postMessage({ texts: log });
    if (lost) port.postMessage({ lost });
  };
};
