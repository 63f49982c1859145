/**
 * <product-tour src="/tour/whep/demo">: plays a narrated product tour over WebRTC data channels.
 *
 * One message of the server ("bundle") is applied whole in one animation frame, so that a picture and the words about
 * it are painted together; what was painted is reported back ("painted") and kept in `element.log`.
 * Every interruption begins a new epoch; nothing of an older one is put on the page any more.
 * A shop embeds this one module; product-tour-roads.js, beside it, comes by itself when a tour begins: see there.
 * The messages are those of multimodal/wire.py. Text is only ever written as text, never as markup.
 *
 * Attributes: src (WHEP-style URL), token (Bearer), theme (light | dark; default: the reader's), autoplay. Set by itself:
 * state, and reconnecting while a lost road is looked for.
 * Light DOM: slot "poster" (stands on the stage until the first picture), default slot (stands where the words will).
 * Parts: tour, stage, slot, picture, missing (the words in its place), caption, title, price, side, text, word, controls, button (start, play, restart),
 * message, strip, thumb.
 * Custom properties, colours: --tour-bg, -fg, -muted, -line, -accent, -on-accent, -stage; type: --tour-font, -text-font,
 * -display; sizes: --tour-radius, -ratio and -stage-max (the stage's shape and largest height), -text-height.
 */

/** Every word that the player itself shows or says; a page may change them before it starts a tour. */
export const labels = {
  tour: 'Product tour', words: 'Narration', seen: 'Shown so far', start: 'Play the tour',
  play: 'Play', pause: 'Pause', resume: 'Resume', again: 'Play again', retry: 'Try again', restart: 'Restart',
  connecting: 'Connecting…', stream: 'The narration stopped early.', network: 'The shop could not be reached.',
  lost: 'The connection was lost.', server: 'The tour could not start. Please try again.',
};

const VERSION = 1;
const LOG_LIMIT = 20000;
const PICTURE_LIMIT = 16 << 20; // bytes of one picture
const UNFINISHED_LIMIT = 64 << 20; // bytes of all pictures that have not come whole
const PICTURES_LIMIT = 2000;
const HAVE_MS = 300; // so long a hello waits for what it may say of pictures from earlier tours
const HELP_MS = 8000; // a module that takes longer does not come
const ACK_BYTES = 16384, ACK_MS = 50; // inside the server's window of 64 KiB, so that it never runs dry

const now = () => performance.now();
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

/** The other module: fetched beside the first offer, so that it is there when the network is not. */
let others;

/** What this browser can decode: every one that knows light-dark() knows the pictures; for clips it is asked. */
const formats = ['image/avif', 'image/webp', 'image/jpeg', 'image/png', ...['video/webm', 'video/mp4']
  .filter((type) => document.createElement('video').canPlayType(type))];

const CRC = Uint32Array.from({ length: 256 }, (_, n) => {
  for (let bit = 8; bit--;) n = n & 1 ? 0xedb88320 ^ (n >>> 1) : n >>> 1;
  return n;
});
/** @param {Uint8Array} bytes */
const crc32 = (bytes) => {
  let crc = -1;
  for (const byte of bytes) crc = CRC[(crc ^ byte) & 255] ^ (crc >>> 8);
  return ~crc >>> 0;
};

/**
 * An element. Built by hand and not from markup: it passes any content security policy, trusted types included.
 * @param {string} tag @param {string} name its class, and the part that a page can style @param {Record<string, string>} attributes
 * @param {...(Node | string)} children
 */
const h = (tag, name, attributes, ...children) => {
  const element = document.createElement(tag), all = { ...(name && { class: name, part: name }), ...attributes };
  for (const key in all) element.setAttribute(key, all[key]);
  element.append(...children);
  return element;
};

/**
 * Decodes `src` into an image that can be painted in the very frame it is shown in. `decoding = sync` forbids the
 * browser to paint the frame without it. A hidden page has no frames for `decode()` to settle in: loaded has to do there.
 * A clip, silent and over and over, stands for an image once its first frame is there.
 * @param {string} src
 */
const decoded = async (src, type = '') => {
  if (type.startsWith('video/')) {
    const video = Object.assign(h('video', '', { role: 'img' }), { muted: true, loop: true, autoplay: true, playsInline: true, src });
    await new Promise((resolve, reject) => Object.assign(video, { onloadeddata: resolve, onerror: reject }));
    return video;
  }
  const image = new Image(), done = new AbortController();
  image.decoding = 'sync';
  image.src = src;
  const hidden = new Promise((resolve) => {
    image.onload = () => document.hidden ? resolve(0)
      : document.addEventListener('visibilitychange', resolve, { once: true, signal: done.signal });
  });
  try {
    await Promise.race([image.decode(), hidden]);
  } finally {
    done.abort();
    image.onload = null;
  }
  return image;
};

/** A viewer's place in a session; it outlives the roads to it, which product-tour-roads.js changes. */
class Seat {
  /** @type {URL | null} */ url = null;
  /** @type {Set<string>} the beginnings of the SHA-256 of pictures that are here */ have = new Set();
  /** @type {Map<string, Picture>} */ pictures = new Map();
  cursor = -1; patience = 10; limit = 1e4; pings = 0; said = 0; turn = []; over = false; roads = new Set(); road = null;

  /** @param {ProductTour} host */
  constructor(host) {
    this.host = host;
    this.helped = Promise.race([this.#help(), sleep(HELP_MS)]);
    new Road(this, webrtc);
  }

  async #help() {
    const found = await (others ??= import('./product-tour-roads.js').catch(() => others = null));
    return !this.over && found?.attend(this, { labels, Road, webrtc });
  }

  async lost(road, code, reply) {
    if (await this.helped) this.lost(road, code, reply);
    else if (!this.over) this.host._fail(code, reply);
  }

  /** @param {object} message */
  send(message) {
    this.road.send(message);
  }

  headers(headers) {
    const token = this.host.getAttribute('token');
    return { ...headers, ...(token && { Authorization: `Bearer ${token}` }) };
  }

  /** Says goodbye, after everything said before, and lets the server close; if it does not, we do. */
  leave() {
    const { url } = this;
    this.lost = this.close; // all has been shown: how the road closes is of no interest
    this.url = null;
    this.road.send({ type: 'bye', reason: 'end' });
    setTimeout(() => {
      this.url = url;
      this.close();
    }, 1000);
  }

  /** The seat before its roads: a server that sees a viewer's connection go waits for it to come back. */
  close() {
    if (this.over) return;
    this.over = true;
    const gone = this.url && this.end(this.url);
    for (const road of this.roads) road.close(gone);
  }

  /** @param {URL} url */
  end(url) {
    // keepalive: it must leave although the page is going away. A reply that nobody reads is logged as aborted.
    const told = fetch(url, { method: 'DELETE', keepalive: true, headers: this.headers() }).then((reply) => reply.text());
    return Promise.race([told.catch(() => {}), sleep(1000)]);
  }
}

/** One road to a seat: hello, acks, pings. It knows messages, not what they mean to a reader. */
class Road {
  over = false; greeted = false; heard = false; silent = 0; bytes = 0;
  #seq = -1; #held = []; #beat; #ackedBytes = 0; #ackedAt = 0; #ackTimer = 0;

  /** @param {Seat} seat @param {(road: Road) => void} open gives it `put` and `hangUp` */
  constructor(seat, open) {
    this.seat = seat;
    seat.roads.add(this);
    seat.road ??= this;
    this.#beat = setInterval(() => {
      if (++this.silent > (this.greeted ? seat.patience : 10)) this.fail();
      else this.send({ type: 'ping', id: seat.pings++, t_ms: now() });
    }, 1000);
    open(this);
  }

  async hello() {
    const { seat } = this;
    await Promise.race([seat.helped, sleep(HAVE_MS)]);
    if (this.over) return;
    this.#seq = seat.cursor;
    seat.road = this;
    this.greeted = true;
    this.send({
      type: 'hello', v: VERSION, cursor: seat.cursor, resume: !!seat.said, formats, viewport: [innerWidth, innerHeight],
      dpr: devicePixelRatio, save_data: !!navigator.connection?.saveData,
      reduced_motion: matchMedia('(prefers-reduced-motion: reduce)').matches, have: [...seat.have],
    });
    this.nth = ++seat.said;
  }

  /** @param {object} message */
  send(message) {
    if (!this.over && this.greeted) this.put(JSON.stringify(message));
  }

  /** @param {string} data */
  message(data) {
    const { seat } = this, t_ms = now();
    if (this.over) return;
    this.silent = 0;
    let message;
    try {
      message = JSON.parse(data);
    } catch {
      return;
    }
    const { type, id } = message ?? {};
    seat.told?.(this, message);
    if (type === 'bye') return this.fail();
    if (!this.heard) seat.arrived?.(this);
    this.heard = true;
    seat.host.road = this.kind;
    if (type === 'ping') this.send({ type: 'pong', id, t_ms: message.t_ms, at_ms: t_ms });
    if (type !== 'bundle') return;
    if (message.v !== VERSION) return this.fail('version');
    for (const event of message.events) {
      const { seq, kind } = event;
      if (kind === 'gap' || kind === 'snapshot') seat.wait = seat.helped; // they have no place of their own
      else if (seq <= this.#seq) continue; // seen: the road is ordered, so only a replay comes twice
      else if (seq > this.#seq + 1) return this.fail(); // the one between is gone: again from the cursor
      this.#seq = seq;
      if (kind === 'asset') seat.host._asset(event); // at once: decoding must not wait for a frame
      this.#held.push({ vantage: 'arrived', t_ms, seq, event });
    }
    if (!message.more) {
      seat.cursor = this.#seq;
      seat.host._bundle(this.#held.splice(0));
    }
    this.#ack();
  }

  /** @param {ArrayBuffer} data */
  part(data) {
    this.silent = 0;
    if (this.over || !(data instanceof ArrayBuffer) || data.byteLength < 16) return;
    const view = new DataView(data), start = 16 + view.getUint16(2);
    if (view.getUint16(0) !== 0x4d01 || data.byteLength <= start) return;
    const payload = new Uint8Array(data, start), offset = view.getUint32(4), total = view.getUint32(8);
    this.bytes += payload.length;
    this.#ack();
    if (offset + payload.length > total || crc32(payload) !== view.getUint32(12)) return;
    this.seat.host._part(new TextDecoder().decode(new Uint8Array(data, 16, start - 16)), offset, total, payload);
  }

  #ack() {
    const t = now(), { bytes } = this;
    clearTimeout(this.#ackTimer);
    if (bytes - this.#ackedBytes < ACK_BYTES && t - this.#ackedAt < ACK_MS) {
      this.#ackTimer = setTimeout(() => this.#ack(), ACK_MS);
      return;
    }
    this.#ackedBytes = bytes;
    this.#ackedAt = t;
    this.send({ type: 'ack', seq: this.#seq, picture_bytes: bytes });
  }

  /** @param {string} [code] @param {{status: number, reason?: string}} [reply] what the server answered */
  fail(code = this.greeted ? 'lost' : 'ice', reply) {
    if (this.over) return;
    this.close();
    this.seat.lost(this, code, reply);
  }

  /** @param {Promise<unknown> | null} [after] hangs up then */
  async close(after) {
    this.over = true;
    this.seat.roads.delete(this);
    clearInterval(this.#beat);
    clearTimeout(this.#ackTimer);
    if (after) await after;
    this.hangUp?.();
  }
}

/** Signalling, and two channels. @param {Road} road */
const webrtc = async (road) => {
  const { seat } = road, { host } = seat;
  let code = 'ice';
  road.kind = 'webrtc';
  try {
    const pc = road.pc = new RTCPeerConnection({
      iceServers: [...host.iceServers, ...seat.turn], iceTransportPolicy: host.iceTransportPolicy,
    });
    const events = pc.createDataChannel('events', { negotiated: true, id: 0 });
    const images = pc.createDataChannel('images', { negotiated: true, id: 1, ordered: false });
    road.put = (text) => events.readyState === 'open' && events.send(text);
    road.hangUp = () => pc.close();
    images.binaryType = 'arraybuffer';
    events.onopen = () => road.hello();
    events.onmessage = ({ data }) => road.message(data);
    images.onmessage = ({ data }) => road.part(data);
    events.onclose = () => road.fail();
    pc.onconnectionstatechange = () => pc.connectionState === 'failed' && road.fail();
    code = 'network';
    seat.url || await host.beforeJoin?.();
    const url = seat.url ?? new URL(host.getAttribute('src') ?? '', document.baseURI);
    await pc.setLocalDescription(); // an offer; posted at once: waiting for candidates costs 150 ms and gains nothing
    const reply = await fetch(url, {
      method: 'POST', body: pc.localDescription.sdp, headers: seat.headers({ 'Content-Type': 'application/sdp' }),
      signal: AbortSignal.timeout(seat.limit),
    });
    const { headers } = reply;
    code = 'server';
    if (reply.status !== 201) return road.fail(code, reply);
    seat.links = headers.get('Link');
    const place = new URL(headers.get('Location') ?? '', url);
    const sdp = await reply.text();
    if (seat.over) return seat.end(place);
    seat.url ??= place;
    await pc.setRemoteDescription({ type: 'answer', sdp });
  } catch {
    road.fail(code);
  }
};

/** What is known of one picture; `slot` is its place on the stage, `want` that the slot waits for the picture, `lost` that only words stand there. */
class Picture {
  alt = ''; product = ''; width_px = 0; height_px = 0; placeholder = ''; variants = [];
  /** @type {HTMLImageElement | HTMLVideoElement | null} */ image = null;
  /** @type {HTMLImageElement | null} */ preview = null;
  /** @type {{total: number, data: Uint8Array, ranges: number[][]} | null} */ parts = null;
  settled = false; want = false; lost = false; slot = h('div', 'slot');
  /** @type {HTMLElement | null} */ thumb = null;
  /** @type {HTMLCanvasElement | null} */ copy = null;

  /** @param {string} key */
  constructor(key) {
    this.key = key;
  }

  /** Puts a part in its place, wherever and however often it comes; true once the picture is whole. */
  add(offset, total, payload) {
    if (this.parts?.total !== total) this.parts = { total, data: new Uint8Array(total), ranges: [] };
    let from = offset, to = offset + payload.length;
    this.parts.data.set(payload, offset);
    const ranges = this.parts.ranges.filter(([a, b]) => {
      if (b < from || a > to) return true;
      from = Math.min(from, a);
      to = Math.max(to, b);
      return false;
    });
    ranges.push([from, to]);
    this.parts.ranges = ranges;
    return this.whole;
  }

  get whole() {
    return this.parts?.ranges[0][1] - this.parts?.ranges[0][0] === this.parts?.total;
  }

  /** Fills the slot with the best there is: the picture, its preview, or an empty image that reads its alt text. */
  fill(preview) {
    const image = (!preview && this.image) || this.preview || new Image();
    const shown = { part: 'picture', alt: this.alt, 'aria-label': this.alt, 'data-key': this.key };
    for (const name in shown) image.setAttribute(name, shown[name]);
    image.toggleAttribute('data-preview', image !== this.image);
    if (image === this.image && this.copy) this.thumb?.replaceChildren(this.copy);
    image.toggleAttribute('data-current', true);
    this.slot.style.setProperty('--r', `${this.width_px / this.height_px || 1}`);
    this.slot.replaceChildren(this.lost ? h('p', 'missing', {}, this.alt) : image); // no browser's broken-picture sign
  }

  /** @param {HTMLImageElement | HTMLVideoElement} image */
  settle(image) {
    this.image = image;
    const { naturalWidth: width = image.videoWidth, naturalHeight: height = image.videoHeight } = image;
    // A small copy for the strip, made ahead: no picture is scaled a second time in the frame of a reveal.
    const canvas = this.copy = document.createElement('canvas');
    canvas.height = 112;
    canvas.width = Math.round(112 * width / height) || 112;
    canvas.getContext('2d')?.drawImage(image, 0, 0, canvas.width, canvas.height);
  }
}

const sheet = new CSSStyleSheet();
sheet.replaceSync(`
:host{display:block;container-type:inline-size;color-scheme:light dark;
--_bg:var(--tour-bg,transparent);--_fg:var(--tour-fg,light-dark(#23201c,#f1ede6));
--_muted:var(--tour-muted,light-dark(#6b645b,#a79f93));--_line:var(--tour-line,light-dark(#e3ddd3,#37332d));
--_accent:var(--tour-accent,light-dark(#23201c,#f1ede6));--_on:var(--tour-on-accent,light-dark(#fff,#181613));
background:var(--_bg);color:var(--_fg);font:16px/1.5 var(--tour-font,system-ui,sans-serif)}
:host([hidden]){display:none}
:host([theme=light]){color-scheme:light}
:host([theme=dark]){color-scheme:dark}
*{box-sizing:border-box}
.tour{display:grid;gap:16px;grid-template-columns:minmax(0,1fr)}
.stage{position:relative;aspect-ratio:var(--tour-ratio,1);container-type:size;overflow:hidden;
border-radius:var(--tour-radius,14px);background:var(--tour-stage,light-dark(#efeae1,#23211e))}
.pictures,.poster{position:absolute;inset:0;display:flex;align-items:center;justify-content:center;gap:2px}
[data-shown] .poster{display:none}
.tour:not([data-state=idle]) .poster{opacity:.5}
.poster::slotted(*){position:absolute;inset:0;width:100%;height:100%;object-fit:cover;margin:0}
.slot{overflow:hidden;aspect-ratio:var(--r);width:min((100cqw - 2px*(var(--n) - 1))/var(--n),100cqh*var(--r))}
.slot :is(img,video),.thumb canvas{display:block;width:100%;height:100%;object-fit:cover;color:var(--_muted)}
.slot img:not([src]){padding:12%}
.slot img[data-preview][src]{filter:blur(1em);transform:scale(1.2)}
.slot p{display:grid;place-content:center;height:100%;margin:0;padding:12%;text-align:center;color:var(--_muted)}
.caption{display:flex;gap:1em;height:2.5em;line-height:1.3}
.caption div{flex:1;min-width:0;display:flex;gap:1em;justify-content:space-between;align-items:baseline}
.title{font:500 1.375em/1.3 var(--tour-display,inherit);color:inherit;text-decoration:none;
overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
a.title:hover{text-decoration:underline}
.caption:has(div+div) div{display:block;font-size:.875em}
.caption:has(div+div) .title{display:block;font-size:1.125em}
.price{color:var(--_muted);font-variant-numeric:tabular-nums;white-space:nowrap}
.side{display:flex;flex-direction:column;gap:16px;min-width:0}
.text{height:var(--tour-text-height,9em);overflow:auto;overscroll-behavior:contain;
padding-top:.4em;overflow-wrap:anywhere;mask-image:linear-gradient(#0000,#000 .6em);
font:1.1875em/1.6 var(--tour-text-font,Georgia,serif)}
.text p{margin:0 0 .8em}
.text p:not(:last-child){color:var(--_muted)}
.g{white-space:nowrap}
.word{white-space:normal}
.controls{display:flex;align-items:center;gap:10px;min-height:44px}
.message{flex:1;color:var(--_muted);font-size:.875em;line-height:1.35}
button{font:inherit;color:inherit;background:none;border:1px solid var(--_line);border-radius:99px;padding:0 1.1em;
min-height:44px;cursor:pointer;touch-action:manipulation}
button:hover{border-color:currentColor}
:focus-visible{outline:2px solid var(--_accent);outline-offset:2px}
.play,.start{display:inline-flex;align-items:center;gap:.6em;background:var(--_accent);color:var(--_on);
border-color:transparent;font-weight:600}
.play::before,.start::before{content:"";width:.8em;height:.9em;background:currentColor;
clip-path:polygon(0 0,100% 50%,0 100%)}
[data-state=playing] .play::before{clip-path:polygon(0 0,35% 0,35% 100%,65% 100%,65% 0,100% 0,100% 100%,0 100%)}
.play{min-width:8.5em}
.start{position:absolute;bottom:1.25em;inset-inline-start:1.25em;min-height:52px;padding:0 1.5em}
.tour:not([data-state=idle]) :is(.start,.intro){display:none}
[data-state=idle] .controls{visibility:hidden}
.tour:not([data-state=playing],[data-state=paused]) .restart{display:none}
.strip{display:flex;gap:8px;height:60px;padding:2px;overflow:auto hidden;scrollbar-width:none}
.thumb{flex:0 0 56px;height:56px;min-height:0;padding:0;overflow:hidden;border-radius:8px;
background:var(--tour-stage,light-dark(#efeae1,#23211e)) center/cover}
.thumb[aria-current]{border:2px solid var(--_accent)}
.live{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);user-select:none}
@container (min-width:720px){
.tour{grid-template-columns:minmax(0,min(54cqw,var(--tour-stage-max,66svh)*var(--tour-ratio,1))) minmax(0,1fr);
column-gap:clamp(28px,4cqw,64px)}
.text{flex:1 1 0;height:auto;min-height:8em;font-size:1.375em}
.stage,.side{grid-row:1}.strip{grid-column:2}}
@media (forced-colors:active){.play::before,.start::before{background:ButtonText}}
`);

/** The characters between which a line may break without a space. */
const WIDE = /[\p{Ideographic}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Thai}]/u;
const CLOSING = /^[\p{Pe}\p{Pf}\p{Po}]/u;
const SENTENCES = /^.*(?:[.!?…]["'”’)\]]*\s|[。！？]|\n\s*\n)/su;

export class ProductTour extends HTMLElement {
  /** @type {Array<object>} what arrived and what was painted, oldest first; at most 20,000 entries */
  log = [];
  /** @type {RTCIceServer[]} */ iceServers = [];
  /** @type {RTCIceTransportPolicy} */ iceTransportPolicy = 'all';
  stats = this.#freshStats();
  /** webrtc, websocket or sse; '' = nothing has come yet */
  road = '';
  #state = 'idle'; #seat = null; #attached = null; #raf = 0; #frame = 0; #queue = []; #unfinished = 0;
  #products = new Map(); #interval = 1; #shown = []; #mark = -1; #lastWord = null;
  #epoch = 0; #base = 0; #rtl = false;
  #paragraph = null; #group = null; #space = ''; #tail = ''; #unsaid = ''; #failure = null;

  #pictureBox = h('div', 'pictures');
  #start = h('button', 'button start');
  #caption = h('div', 'caption');
  #text = h('div', 'text', { tabindex: '0', role: 'region' });
  #play = h('button', 'button play');
  #restart = h('button', 'button restart');
  #message = h('span', 'message', { role: 'status' });
  #strip = h('div', 'strip', { role: 'group' });
  #live = h('div', 'live', { 'aria-live': 'polite' });
  #words = h('div');
  #tour = h('section', 'tour', {},
    h('div', 'stage', {}, h('slot', 'poster', { name: 'poster' }), this.#pictureBox, this.#start),
    this.#caption,
    h('div', 'side', {}, this.#text,
      h('div', 'controls', {}, this.#play, this.#restart, this.#message)),
    this.#strip, this.#live);

  constructor() {
    super();
    const root = this.attachShadow({ mode: 'open' });
    root.adoptedStyleSheets = [sheet];
    root.append(this.#tour);
    this.#text.append(h('slot', 'intro'), this.#words);
    this.#start.onclick = () => {
      this.play();
      this.#play.focus(); // the button that was pressed has gone
    };
    this.#play.onclick = () => this.#state === 'playing' ? this.pause() : this.play();
    this.#restart.onclick = () => this.restart();
  }

  connectedCallback() {
    this.#attached = new AbortController();
    const { signal } = this.#attached;
    addEventListener('pagehide', (event) => this.#seat?.rest?.(event) || this.#leave(), { signal });
    document.addEventListener('visibilitychange', () => document.hidden && this.#drain(), { signal });
    this._set(this.#state);
    if (this.hasAttribute('autoplay')) this.play();
  }

  disconnectedCallback() {
    this.#attached.abort();
    queueMicrotask(() => this.isConnected || this.#leave()); // moved in the page is not gone
  }

  /** idle, connecting, playing, paused, ended or error */
  get state() {
    return this.#state;
  }

  /** Starts the tour, or goes on after a pause; after the end or an error it starts anew. */
  play() {
    if (this.#state === 'paused') {
      this.#seat.send({ type: 'resume' });
      this._set('playing');
    } else if (!/g$/.test(this.#state)) {
      this.restart();
    }
  }

  /** Asks the narrator to stop; what is on its way is still shown. */
  pause() {
    if (this.#state !== 'playing') return;
    this.#seat.send({ type: 'pause' });
    this._set('paused');
  }

  /**
   * Stops what is being told. Of what is already on its way nothing is shown any more. The tour stays open, and silent, until
   * the server says another turn or ends it: `ask`, `restart` and the shop have a next step, `pause` is for going on later.
   */
  interrupt() {
    this.#turn({ type: 'interrupt' });
  }

  /** Interrupts with a question: what follows is the answer. @param {string} text */
  ask(text) {
    this.#turn({ type: 'ask', text });
  }

  /** Goes on with the tour's next chapter, if there is one. */
  skip() {
    this.#seat?.send({ type: 'skip', epoch: this.#epoch });
  }

  /** Has the tour told again from a mark, as `sync` events in the log name them. @param {number} mark */
  rewind(mark) {
    this.#seat?.send({ type: 'rewind', epoch: this.#epoch, mark });
  }

  #turn(message) {
    if (/^p/.test(this.#state)) this.#seat.send({ ...message, epoch: this.#epoch++ });
  }

  /** A new session from the beginning. */
  restart() {
    this.#hangUp();
    this.log = [];
    this.stats = this.#freshStats();
    this.#queue = [];
    this.#unfinished = this.#frame = this.#epoch = this.#base = 0;
    this.#rtl = getComputedStyle(this).direction === 'rtl';
    this.#failure = null;
    this.#clear();
    delete this.#tour.dataset.shown;
    for (const box of [this.#words, this.#strip, this.#live]) box.replaceChildren();
    this._set('connecting');
    this.road = '';
    this.#seat = new Seat(this);
  }

  async _bundle(entries) {
    const seat = this.#seat;
    for (const entry of entries) this.#record(entry);
    await seat.wait;
    if (seat.over) return;
    let events = entries.map(({ event }) => event);
    if (seat.unfold) events = seat.unfold(events);
    this.#queue.push(...events);
    this.#schedule();
  }

  #freshStats() {
    return { reveals: 0, missed: 0, judged: 0, sameFrame: 0, tokenDriftMax: 0, skewMs: { last: 0, max: 0 } };
  }

  #hangUp() {
    this.#seat?.close();
    cancelAnimationFrame(this.#raf);
    this.#raf = 0;
  }

  #leave() {
    if (this.#seat?.over !== false) return;
    this.#hangUp();
    if (this.#state !== 'ended') this._set('idle');
  }

  #record(entry) {
    this.log.push(entry);
    if (this.log.length > LOG_LIMIT) this.log.splice(0, LOG_LIMIT / 20);
  }

  _emit(name, detail) {
    // A task of its own: a slow listener must not delay the frame that is being painted.
    setTimeout(() => this.dispatchEvent(new CustomEvent(`tour-${name}`, { detail, bubbles: true, composed: true })));
  }

  _set(state, message = '') {
    this.#state = state;
    this.setAttribute('state', state);
    this.#tour.dataset.state = state;
    const names = { playing: 'pause', paused: 'resume', ended: 'again', error: 'retry' };
    this.#play.textContent = labels[names[state] ?? 'play'];
    this.#message.textContent = state === 'connecting' ? labels.connecting : message || this.#seat?.note;
    this.#start.textContent = labels.start;
    this.#restart.textContent = labels.restart;
    this.#tour.ariaLabel = labels.tour;
    this.#text.ariaLabel = labels.words;
    this.#strip.ariaLabel = labels.seen;
  }

  _fail(code, reply) {
    const message = labels[code] ?? labels.server;
    this.#seat.close();
    this.#drain();
    this._set('error', message);
    this._emit('error', { code, message, status: reply?.status, reason: reply?.reason });
  }

  // ---- pictures

  #picture(key) {
    const { pictures } = this.#seat;
    let picture = pictures.get(key);
    if (!picture) pictures.set(key, picture = new Picture(key));
    return picture;
  }

  _asset({ key, product, alt, width_px, height_px, placeholder, variants, color }) {
    const picture = this.#picture(key);
    if (color) picture.slot.style.backgroundColor = color;
    Object.assign(picture, { product, alt, width_px, height_px });
    if (variants?.length) picture.variants = variants;
    if (placeholder?.startsWith('data:image/') && !picture.preview) {
      picture.placeholder = placeholder;
      decoded(placeholder).then((image) => {
        picture.preview = image;
        if (picture.slot.querySelector('img:not([src])')) picture.fill(true); // shown in the moment it was described
      }, () => {});
    }
    this.#prepare(picture);
  }

  _part(key, offset, total, payload) {
    const { pictures } = this.#seat;
    if (total > PICTURE_LIMIT || pictures.size > PICTURES_LIMIT) return;
    const picture = this.#picture(key);
    if (picture.settled || picture.whole) return;
    if (picture.parts?.total !== total) {
      this.#unfinished += total - (picture.parts?.total ?? 0);
      for (const other of pictures.values()) {
        if (this.#unfinished <= UNFINISHED_LIMIT) break;
        if (other !== picture && other.parts) this.#forget(other);
      }
    }
    if (picture.add(offset, total, payload)) this.#prepare(picture);
  }

  #forget(picture) {
    this.#unfinished -= picture.parts?.total ?? 0;
    picture.parts = null;
  }

  /** Checks and decodes a picture once both its description and its bytes (or its address) are here. */
  async #prepare(picture) {
    const seat = this.#seat, { variants, parts, key, whole } = picture;
    const variant = variants.find((v) => parts ? v.size_bytes === parts.total : v.url) ?? variants[0];
    if (picture.settled || !variant || !(whole || variant.url)) return;
    picture.settled = true;
    const { sha256, url } = variant;
    let reason = '', src = url, data = whole && parts.data;
    try {
      if (data && crypto.subtle && sha256) { // absent on plain http
        const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', data));
        if (Array.from(digest, (byte) => byte.toString(16).padStart(2, '0')).join('') !== sha256) reason = 'wrong_sha256';
        if (await seat.checked?.(picture, sha256, data, !reason)) { // spoilt, and comes again
          this.#forget(picture);
          picture.settled = false;
          return;
        }
      }
      if (data) src = URL.createObjectURL(new Blob([data], { type: variant.media_type }));
      if (!reason) picture.settle(await decoded(src, variant.media_type));
    } catch {
      reason = 'undecodable';
    }
    if (src !== url) URL.revokeObjectURL(src); // the image holds what it has loaded
    if (seat.over) return;
    this.#forget(picture);
    seat.send({ type: 'ready', key, ok: !reason, reason });
    if (picture.image && picture.want) {
      this.#queue.push({ kind: 'swap', key, ok: true });
      this.#schedule();
    }
  }

  // ---- frames

  #schedule() {
    if (document.hidden) this.#drain();
    else this.#raf ||= requestAnimationFrame((t) => this.#apply(t, true));
  }

  /** A hidden page gets no frames: what has arrived goes into the page now, and its receipt says so. */
  #drain() {
    cancelAnimationFrame(this.#raf);
    if (this.#queue.length) this.#apply(now(), false);
  }

  #apply(t, visible) {
    this.#raf = 0;
    const frame = { t, visible, id: ++this.#frame, reveals: [], ended: false };
    const follow = this.#text.scrollHeight - this.#text.scrollTop - this.#text.clientHeight < 40;
    // What had arrived, and waits for this frame, when the viewer interrupted is not shown; how the stream ends is told
    // anyway. One by one: a snapshot takes a viewer back whose turn was refused, and what follows it may be in the frame.
    let seq;
    for (const event of this.#queue.splice(0)) {
      if (event.epoch < this.#epoch && !/^e/.test(event.kind)) continue;
      try {
        this.#show(event, frame);
      } catch (error) {
        console.error('product-tour', event, error); // one bad event must not take the rest of its frame with it
      }
      if (event.seq >= 0) seq = event.seq;
    }
    if (follow) this.#text.scrollTop = this.#text.scrollHeight;
    if (seq === undefined) return; // only a picture of our own decoding: nothing of the server's to confirm
    this.#seat.send({ type: 'painted', seq, t_ms: t, frame: frame.id, visible });
    this.#record({ vantage: 'painted', t_ms: t, frame: frame.id, seq, visible, reveals: frame.reveals });
    if (frame.ended) this.#seat.leave();
  }

  #show(event, frame) {
    switch (event.kind) {
      case 'start':
        this.#products = new Map(event.products?.map((product) => [product.id, product]));
        this.#interval = event.sync_interval;
        if (this.#state !== 'connecting') return;
        this._set('playing');
        return this._emit('start', event);
      case 'text':
        this.#write(event);
        this.#lastWord = frame;
        return event.restored || this.#say(event.text);
      case 'reveal':
        return this.#reveal(event, frame);
      case 'swap': {
        const picture = this.#picture(event.key);
        picture.want = event.ok && !picture.image;
        if (event.ok && picture.image) picture.fill(false);
        return;
      }
      case 'missed':
        return this.#miss(event);
      case 'interrupt':
        return this.#interrupted(event);
      case 'error':
        this.#failure = event;
        return this._emit('error', { code: event.code, message: event.message });
      case 'end':
        frame.ended = true;
        this.#breathe();
        this.#say('', true);
        if (event.reason === 'error') this._set('error', labels.stream);
        else this._set('ended');
        if (event.reason === 'error' && !this.#failure) this._emit('error', { code: 'stream', message: labels.stream });
        return this._emit('end', { reason: event.reason, unused: event.unused, stats: this.stats });
    }
  }

  #reveal({ cue, key, product, anchor, mark, preview, declared_late: late, restored }, frame) {
    const picture = this.#picture(key), { stats } = this;
    picture.product ||= product;
    const showPreview = !!preview || !picture.image;
    picture.want = !preview && !picture.image; // not ours to wait for: another viewer was ready, or its bytes are late
    if (!picture.thumb) {
      picture.thumb = h('button', 'thumb');
      picture.thumb.ariaLabel = this.#title(picture);
      if (picture.placeholder) picture.thumb.style.backgroundImage = `url("${picture.placeholder}")`;
      picture.thumb.onclick = () => this.#present([picture]);
      this.#strip.append(picture.thumb);
    }
    picture.fill(showPreview);
    this.#enter(picture, mark);
    this.#strip.scrollLeft = this.#strip.scrollWidth * (this.#rtl ? -1 : 1);

    const skewMs = this.#lastWord ? frame.t - this.#lastWord.t : 0;
    const sameFrame = this.#lastWord?.id === frame.id;
    stats.reveals++;
    if (!late) stats.tokenDriftMax = Math.max(stats.tokenDriftMax, mark - anchor);
    const said = mark - this.#base;
    if (said > 0 && said % this.#interval === 0 && frame.visible && !restored) { // the start and an odd end have no words of their own
      stats.judged++;
      if (sameFrame) stats.sameFrame++;
      stats.skewMs.last = skewMs;
      if (Math.abs(skewMs) > Math.abs(stats.skewMs.max)) stats.skewMs.max = skewMs;
    }
    frame.reveals.push({ key, preview: !!preview, decoded: !!(showPreview ? picture.preview : picture.image) });
    this._emit('reveal', { cue, key, product, anchor, mark, preview: !!preview, tokenDrift: mark - anchor, skewMs, sameFrame });
  }

  /** The words go on to a product whose picture will not come: what stood there before would seem to be meant. */
  #miss({ cue, key, product, anchor, reason, tok }) {
    if (reason === 'interrupted') return;
    this.stats.missed++;
    if (reason === 'beyond_end' || reason === 'too_late') return; // no words are about it
    const known = this.#seat.pictures.get(key);
    product ||= known?.product || (this.#products.has(key) ? key : '');
    if (product && !this.#shown.some((picture) => (picture.product || picture.key) === product)) {
      const picture = Object.assign(new Picture(key), { product, lost: true, width_px: known?.width_px, height_px: known?.height_px });
      picture.alt = known?.alt || this.#title(picture);
      picture.fill();
      this.#enter(picture, tok);
    }
    this._emit('missed', { cue, key, product, anchor, reason });
  }

  #interrupted({ epoch, tok, fresh, resumed }) {
    this.#epoch = fresh ?? Math.max(this.#epoch, epoch);
    this.#base = tok;
    this.#clear();
    if (fresh >= 0) return this.#words.replaceChildren(); // what follows is told from a snapshot
    if (!resumed && this.#state === 'paused') this.play();
    this._emit('interrupt', { epoch });
  }

  #clear() {
    this.#present([]);
    this.#mark = -1;
    this.#breathe();
    this.#lastWord = this.#paragraph = this.#group = null;
    this.#tail = this.#unsaid = '';
  }

  #title({ product, alt }) {
    return this.#products.get(product)?.title || alt;
  }

  /** Puts a picture on the stage, beside the others of its mark. */
  #enter(picture, mark) {
    const beside = mark === this.#mark
      ? this.#shown.filter((other) => other !== picture && !(other.lost && other.product === picture.product)) : [];
    this.#mark = mark;
    this.#present([...beside, picture]);
  }

  /** Shows pictures side by side, with what they are and what they cost. */
  #present(pictures) {
    for (const { thumb } of this.#shown) thumb?.removeAttribute('aria-current');
    for (const { thumb } of pictures) thumb?.setAttribute('aria-current', 'true');
    this.#pictureBox.style.setProperty('--n', `${pictures.length}`);
    this.#pictureBox.replaceChildren(...pictures.map((picture) => picture.slot));
    this.#shown = pictures;
    this.#tour.dataset.shown = '';
    const lines = new Map(pictures.map((picture) => [picture.product || picture.key, picture]));
    this.#caption.replaceChildren(...Array.from(lines.values(), (picture) => {
      const { url, price, currency } = this.#products.get(picture.product) ?? {};
      const safe = /^https?:/.test(url); // a catalogue's "javascript:" must not become a link
      return h('div', '', {}, h(safe ? 'a' : 'span', 'title', { dir: 'auto', ...(safe && { href: url }) }, this.#title(picture)),
        h('span', 'price', {}, this.#money(price, currency)));
    }));
  }

  #money(price, currency) {
    try {
      const lang = this.closest('[lang]')?.lang || undefined;
      return price ? new Intl.NumberFormat(lang, { style: 'currency', currency }).format(price) : '';
    } catch {
      return `${price} ${currency ?? ''}`.trim();
    }
  }

  // ---- words

  /**
   * Every token is a span of its own, so that its paint can be observed; those of one word share a span that does not
   * break. They are inline: a box would stand outside its line's writing direction and break joined letters.
   * White space stays outside them: textContent is exactly the text, and a copy reads like the page.
   */
  #write({ text, token_index: first, token_count: count }) {
    const pieces = text.split(/([ \t\r\n]+)/), last = first + count - 1;
    let left = pieces.filter((piece, i) => piece && i % 2 === 0).length, tok = first;
    const word = (piece) => h('span', 'word', { 'data-tok': `${tok}` }, piece);
    if (!left) this.#flow().append(word(''));
    pieces.forEach((piece, i) => {
      if (!piece) return;
      if (i % 2) {
        this.#space += piece;
        this.#group = null;
        return;
      }
      this.#breathe();
      if (--left === 0) tok = last; // of a run the last box is sure; those before it are counted from the front
      if (!this.#group || WIDE.test(piece[0]) || (WIDE.test(this.#tail) && !CLOSING.test(piece))) {
        this.#flow().append(this.#group = h('span', 'g'));
      }
      this.#group.append(word(piece));
      // Not before its first letter, or a leading number would decide; where the page says right to left, it is known.
      if (!this.#rtl && !this.#paragraph.dir && /\p{L}/u.test(piece)) this.#paragraph.dir = 'auto';
      this.#tail = piece.at(-1);
      if (tok < last) tok++;
    });
  }

  /** Writes the white space before the next word: alone at a line's end it would be moved, which counts as a shift. */
  #breathe() {
    if (this.#space) this.#flow().append(this.#space);
    if (/\n\s*\n/.test(this.#space)) this.#paragraph = null;
    this.#space = '';
  }

  #flow() {
    if (!this.#paragraph) this.#words.append(this.#paragraph = h('p'));
    return this.#paragraph;
  }

  /** Whole sentences to those who listen: single words would interrupt each other. */
  #say(text, all = false) {
    this.#unsaid += text;
    const said = all ? this.#unsaid : this.#unsaid.match(SENTENCES)?.[0];
    if (!said?.trim()) return;
    this.#unsaid = this.#unsaid.slice(said.length);
    this.#live.append(h('p', '', {}, said.trim()));
    if (this.#live.childElementCount > 3) this.#live.firstChild.remove();
  }
}

if (!customElements.get('product-tour')) customElements.define('product-tour', ProductTour);
