'use strict';
// What the timeline is drawn with.

const ctx = canvas.getContext('2d');

let colours = null;
function palette() {
  if (!colours) {
    colours = {};
    for (const c of ['soft', 'line', 'muted', 'ink', 'card', 'sold', 'wait', 'none', 'double', 'bad-soft', 'paused', 'cut', 'good', 'focus']) colours[c] = colour(c);
  }
  return colours;
}
dark.addEventListener('change', () => { colours = null; draw(); });

function edge(stroke, x, y, w, h) {
  ctx.strokeStyle = stroke;
  ctx.lineWidth = 1;
  ctx.setLineDash([4, 3]);
  ctx.strokeRect(x + 0.5, y + 0.5, w, h - 1);
  ctx.setLineDash([]);
}

function hatch(stroke, x, y, w, h, every, alpha) {
  ctx.save();
  ctx.beginPath();
  ctx.rect(x, y, w, h);
  ctx.clip();
  ctx.strokeStyle = stroke;
  ctx.globalAlpha = alpha;
  ctx.lineWidth = 1.3;
  ctx.beginPath();
  const left = Math.max(x, 0) - h - (Math.max(x, 0) % every), right = Math.min(x + w, canvas.clientWidth);
  for (let k = left; k < right; k += every) { ctx.moveTo(k, y + h); ctx.lineTo(k + h, y); }
  ctx.stroke();
  ctx.restore();
}

function label(p, text, x, y, fill) {
  ctx.font = '600 12px system-ui, sans-serif';
  ctx.textAlign = x > p.l.head + p.l.width - 90 ? 'right' : 'left';
  if (ctx.textAlign === 'right') x -= 14;
  ctx.lineWidth = 4;
  ctx.strokeStyle = p.c.soft;
  ctx.strokeText(text, x, y);
  ctx.fillStyle = fill;
  ctx.fillText(text, x, y);
}
