"""The script that watches a page from an isolated world: it sees the page's DOM, the page sees none of its names.

Per animation frame it draws a counter into a corner, and tells through a binding what changed and where it stands:

    view  {n, width, height}                    size of the viewport, CSS pixels
    word  {n, tok, box, hidden}                 a word came into the DOM at frame n
    pic   {n, key, box, hidden, id}             a picture was added, became current, got a new source, or moved
    gone  {n, id | tok}                         it moved, changed or left: from frame n on its box shows something else
    gap   {n, ms}                               two animation frames more than 50 ms apart
    shift {value}                               a layout shift that no input caused

Element Timing is no witness here: Chromium reports nothing of it from inside a shadow tree (measured, version 156).
"""

from __future__ import annotations

import json

__all__ = ["BINDING", "BLOCK_PX", "CELLS", "COUNTER_BITS", "WORLD", "world_script"]

WORLD = "multimodal-glass"
BINDING = "multimodalGlass"

COUNTER_BITS = 12
"""A wrap every 68 s at 60 frames per second: far longer than any gap between two captured frames."""

CELLS = COUNTER_BITS + 4
"""Guard (white, black), the bits from the lowest up, parity, guard (white)."""

BLOCK_PX = 8
"""One JPEG block: what stands beside a cell cannot smear into it."""

_SCRIPT = """
(() => {
  const {host, binding, bits, block, scale} = OPTIONS;
  if (globalThis.multimodalGlassOn) return;
  globalThis.multimodalGlassOn = true;
  const side = block * scale, cells = bits + 4;
  const WATCHED = 45;
  let n = 0, last = 0, pending = [], notes = [], nextId = 0;
  const live = new Map(), dormant = new Set(), roots = new WeakSet();

  const strip = document.createElement('div');
  strip.style.cssText = 'all:initial;position:fixed;left:0;top:0;z-index:2147483647;pointer-events:none;' +
    `contain:strict;width:${cells * side}px;height:${side}px`;
  strip.setAttribute('aria-hidden', 'true');
  const canvas = document.createElement('canvas');
  canvas.width = cells * side; canvas.height = side;
  canvas.style.cssText = 'display:block';
  strip.attachShadow({mode: 'closed'}).append(canvas);
  const pen = canvas.getContext('2d', {alpha: false, willReadFrequently: true});
  const draw = () => {
    let parity = 0;
    const cell = (i, on) => { pen.fillStyle = on ? '#fff' : '#000'; pen.fillRect(i * side, 0, side, side); };
    cell(0, 1); cell(1, 0);
    for (let i = 0; i < bits; i++) { const on = (n >> i) & 1; parity ^= on; cell(i + 2, on); }
    cell(bits + 2, parity); cell(bits + 3, 1);
  };

  const shown = (el) => el.isConnected && el.checkVisibility({visibilityProperty: true, opacityProperty: true});
  // A word that breaks at a hyphen has a box on each line; one box around both would hold its neighbours too.
  const boxOf = (el) => {
    const r = el.getClientRects()[0] ?? el.getBoundingClientRect();
    return [r.left, r.top, r.width, r.height];
  };
  const isWord = (el) => el.matches('span.word[data-tok]');
  const isPicture = (el) => el.matches('img[part~="picture"][data-key]');
  const touch = (el) => { pending.push([el, n, document.hidden]); };
  const scan = (el) => {
    if (el.nodeType !== 1) return;
    if (isWord(el) || isPicture(el)) touch(el);
    for (const inner of el.querySelectorAll('span.word[data-tok], img[part~="picture"][data-key]')) touch(inner);
  };
  const changes = new MutationObserver((records) => {
    for (const record of records) {
      if (record.type === 'childList') record.addedNodes.forEach(scan);
      else if (isPicture(record.target)) touch(record.target);
    }
  });
  const adopt = () => {
    for (const el of document.querySelectorAll(host)) {
      const root = el.shadowRoot;
      if (!root || roots.has(root)) continue;
      roots.add(root);
      changes.observe(root, {subtree: true, childList: true, attributes: true,
        attributeFilter: ['data-current', 'src', 'hidden', 'data-key']});
      for (const child of root.children) scan(child);
    }
  };
  new PerformanceObserver((list) => {
    for (const e of list.getEntries()) if (!e.hadRecentInput) notes.push({kind: 'shift', value: e.value});
  }).observe({type: 'layout-shift', buffered: true});

  const forget = (el, entry) => {
    live.delete(el);
    notes.push('tok' in entry ? {kind: 'gone', n, tok: entry.tok} : {kind: 'gone', n, id: entry.id});
  };
  const sameBox = (a, b) => a.every((v, i) => Math.abs(v - b[i]) < 0.5);
  const look = () => {
    // What was painted in frame n is measured before frame n + 1 changes anything: its layout is still clean.
    for (const [el, entry] of live) {
      const box = shown(el) ? boxOf(el) : null;
      if (box && sameBox(box, entry.box)) { if (n - entry.n > WATCHED) live.delete(el); continue; }
      forget(el, entry);
      if (box && 'id' in entry) pending.push([el, n, document.hidden]);
    }
    for (const el of dormant) if (!el.isConnected || shown(el)) { dormant.delete(el); touch(el); }
    for (const [el, at, hidden] of pending) {
      if (!el.isConnected) continue;
      const box = boxOf(el);
      if (!box[2] || !box[3] || !shown(el)) {
        if (isPicture(el)) dormant.add(el); // a hidden picture may be revealed by its parent's style alone
        continue;
      }
      const old = live.get(el);
      if (old && old.n === at && sameBox(old.box, box)) continue;
      if (isWord(el)) {
        const tok = Number(el.dataset.tok);
        live.set(el, {tok, n: at, box});
        notes.push({kind: 'word', n: at, tok, box, hidden});
      } else {
        if (old) forget(el, old);
        const id = nextId++;
        live.set(el, {id, n: at, box});
        notes.push({kind: 'pic', n: at, key: el.dataset.key, box, hidden, id});
      }
    }
    pending = [];
  };
  let size = '';
  const tick = (now) => {
    requestAnimationFrame(tick);
    if (!strip.isConnected && document.documentElement) document.documentElement.append(strip);
    adopt();
    look();
    if (last && now - last > 50) notes.push({kind: 'gap', n, ms: now - last});
    last = now;
    const seen = `${innerWidth}x${innerHeight}`;
    if (seen !== size) { size = seen; notes.push({kind: 'view', n, width: innerWidth, height: innerHeight}); }
    n = n + 1;
    draw();
    if (notes.length) { globalThis[binding](JSON.stringify(notes)); notes = []; }
  };
  requestAnimationFrame(tick);
})();
"""


def world_script(host: str, scale: int = 1) -> str:
    """The script, for elements that match the CSS selector `host`; a cell is `scale` times `BLOCK_PX` wide."""
    options = {"host": host, "binding": BINDING, "bits": COUNTER_BITS, "block": BLOCK_PX, "scale": scale}
    return _SCRIPT.replace("OPTIONS", json.dumps(options), 1)
