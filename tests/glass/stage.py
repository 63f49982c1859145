"""A page that keeps the player's DOM contract and nothing else, with every fault the pixel check must see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from multimodal.browser import open_page
from multimodal.events import Reveal
from multimodal.glass import VIEWPORT, Glass, watch

if TYPE_CHECKING:
    from playwright.async_api import Browser

FAULTS = ("split", "late", "early", "never", "undecoded")

PAGE = """<!doctype html><meta charset=utf-8>
<style>body{margin:0;font:18px/1.4 sans-serif;background:#fff;color:#111}</style>
<product-tour></product-tour>
<script>
class Tour extends HTMLElement {
  constructor() {
    super();
    this.log = [];
    this.attachShadow({mode: 'open'}).innerHTML = `<style>
      :host{display:block;padding:16px}
      .slot{width:280px;height:210px;background:#eee;position:relative}
      img{position:absolute;inset:0;width:100%;height:100%;object-fit:cover}
      .words{height:200px;overflow:hidden;margin-top:12px}
      .word{display:inline-block;white-space:pre}</style>
      <div class=slot></div><div class=words></div>`;
  }
}
customElements.define('product-tour', Tour);
const tour = document.querySelector('product-tour'), slot = tour.shadowRoot.querySelector('.slot');
const words = tour.shadowRoot.querySelector('.words');
const frame = () => new Promise(requestAnimationFrame);
const sleep = (ms) => new Promise((r) => setTimeout(r, ms));
let frames = 0;
(function count() { frames++; requestAnimationFrame(count); })();

async function draw(key, width) {
  const canvas = new OffscreenCanvas(width, width * 3 / 4), pen = canvas.getContext('2d');
  const hue = Number(key.slice(1)) * 137 % 360;
  for (let i = 0; i < 400; i++) {
    pen.fillStyle = `hsl(${hue + i % 60} 70% ${20 + (i * 37) % 60}%)`;
    pen.fillRect((i * 97) % width, (i * 53) % canvas.height, width / 9, width / 12);
  }
  return URL.createObjectURL(await canvas.convertToBlob({type: 'image/webp', quality: 0.9}));
}
const say = (tok) => {
  const span = document.createElement('span');
  span.className = 'word'; span.dataset.tok = tok;
  span.textContent = ['kettle', 'quietly', 'pours', 'walnut', 'over'][tok % 5] + ' ';
  words.append(span);
  words.scrollTop = words.scrollHeight;
};
const show = (img) => { slot.querySelector('img')?.remove(); img.dataset.current = ''; slot.append(img); };
const claim = (seq) => tour.log.push({vantage: 'painted', t_ms: performance.now(), frame: frames, seq, visible: true});

async function play({pairs, fault, pause, between}) {
  const big = fault === 'undecoded';
  const urls = [];
  for (let i = 0; i < pairs; i++) urls.push(await draw('p' + i, big ? 1600 : 560));
  let seq = 0;
  for (let i = 0; i < pairs; i++) {
    const img = new Image();
    img.setAttribute('part', 'picture'); img.dataset.key = 'p' + i;
    if (big) img.decoding = 'async';
    img.src = urls[i];
    if (!big) await img.decode();
    for (let k = 0; k < 2; k++) { await sleep(between); await frame(); say(3 * i + k); claim(seq++); }
    await sleep(pause);
    if (fault === 'early') { await frame(); show(img); await frame(); await frame(); }
    else await frame();
    say(3 * i + 2);
    const event = {kind: 'text', seq: seq++, token_index: 3 * i + 2, token_count: 1};
    const reveal = {kind: 'reveal', cue: i, key: 'p' + i, mark: 3 * i + 3, seq: seq++};
    for (const e of [event, reveal]) tour.log.push({vantage: 'arrived', t_ms: performance.now(), event: e});
    if (fault === 'split') { claim(event.seq); await frame(); show(img); claim(reveal.seq); continue; }
    if (fault === 'late') { claim(reveal.seq); await frame(); await frame(); await frame(); show(img); continue; }
    claim(reveal.seq);
    if (fault === 'never' || fault === 'early') continue;
    show(img);
  }
  await sleep(600);
}
</script>"""


def reveals(count: int) -> list[Reveal]:
    """What a sender would have emitted for `count` pictures, one every three tokens."""
    return [
        Reveal(1, "s", 0, 0, 0.0, 3 * i + 3, cue=i, key=f"p{i}", product="", anchor=3 * i + 3, mark=3 * i + 3)
        for i in range(count)
    ]


async def film(
    browser: Browser, pairs: int, fault: str = "", *, viewport: dict[str, int] = VIEWPORT
) -> tuple[Glass, list[dict[str, Any]]]:
    """Play `pairs` pictures with one fault (or none) and film it; returns what was filmed and the page's own log."""
    async with open_page(browser, viewport=viewport) as page:
        await page.set_content(PAGE)
        async with watch(page) as glass:
            options = {"pairs": pairs, "fault": fault, "pause": 120, "between": 50}
            await page.evaluate("options => play(options)", options)
        log: list[dict[str, Any]] = await page.evaluate("() => tour.log")
    return glass, log
