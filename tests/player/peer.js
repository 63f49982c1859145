// A server's side of a tour, in the page itself: answers the player's POST with a second RTCPeerConnection and lets
// the test speak the protocol. `peer.got` is what the player said, in order. It keeps what it has said in bundles, and
// says it again to a player that comes back. A WebSocket and an event stream stand where a test opens them.
const realFetch = window.fetch;

window.peer = {
  refuse: 0, because: '', offline: false, deaf: false, gone: false, websocket: 'refused', sse: 'refused', links: '', posts: [], sockets: [], pulled: [], pictures: new Map(), deletes: [], got: [], sessions: [], made: [], revoked: [],

  get now() { return this.sessions.at(-1); },
  of(type) { return this.got.filter((message) => message.type === type); },
  say(message) { this.now.events.send(JSON.stringify(message)); },

  seq: 0, tok: 0, epoch: 0,
  event(kind, fields = {}) {
    return { kind, v: 1, sid: 's', epoch: this.epoch, seq: this.seq++, pts_ms: 0, tok: this.tok, ...fields };
  },
  text(text, token_count = 1) {
    const token_index = this.tok;
    this.tok += token_count;
    return this.event('text', { token_index, token_count, text, lane: 'main' });
  },
  start(products = [], sync_interval = 3) {
    return this.event('start', { sync_interval, products, formats: [], token_unit: 'word', late: 'placeholder' });
  },
  // As the server does it: what follows belongs to the next epoch.
  interrupt() {
    this.epoch++;
    return this.event('interrupt');
  },
  mark() { return this.event('sync', { mark: this.tok, char: 0, pending: 0 }); },
  reveal(key, fields = {}) {
    return this.event('reveal', { cue: 0, key, product: '', anchor: this.tok, mark: this.tok, preview: false,
      declared_late: false, ...fields });
  },
  bundle(...events) { this.piece(events, false); },
  some(...events) { this.piece(events, true); },
  // What is emitted while the player is away is kept for it.
  piece(events, more) {
    this.journal.push(...events);
    if (!this.away) this.say({ type: 'bundle', v: 1, events, more });
  },

  seat: 0, away: false, mute: false, falls: 0, journal: [],
  // The player's road is cut; it comes back by itself.
  cut() {
    this.away = true;
    this.now.end();
  },
  heard(session, message) {
    const tell = (told) => session.events.send(JSON.stringify(told));
    this.got.push(message);
    if (message.type === 'ping' && !this.mute) tell({ type: 'tick' }); // a sign of life, and no receipt as a pong is
    if (message.type !== 'hello') return;
    if (this.falls-- > 0) return session.end();
    if (session.kind !== 'webrtc') tell({ type: 'seat', path: `/tour/whep/demo/${this.seat ||= 1}` });
    if (!message.resume) return;
    this.away = false;
    const events = this.journal.filter(({ seq, kind }) => seq > message.cursor || kind === 'gap' || kind === 'snapshot');
    tell({ type: 'bundle', v: 1, events, more: false });
  },
  // A session over anything else than WebRTC, with the same face.
  meet(kind, tell, end) {
    const session = { kind, end, events: { send: tell }, images: { send: tell } };
    this.sessions.push(session);
    return session;
  },

  // A picture of one colour, its asset event and its parts.
  async picture(key, { color = '#c33', width = 64, height = 48, pad = 0, alt = `a picture of ${key}`, ...rest } = {}) {
    const canvas = Object.assign(document.createElement('canvas'), { width, height });
    const context = canvas.getContext('2d');
    context.fillStyle = color;
    context.fillRect(0, 0, width, height);
    const blob = await new Promise((done) => canvas.toBlob(done, 'image/png'));
    // Bytes after the end of a PNG are ignored by decoders: they make it as large as a test wants.
    const data = new Uint8Array([...new Uint8Array(await blob.arrayBuffer()), ...new Uint8Array(pad).fill(7)]);
    return this.wrap(key, data, { width_px: width, height_px: height, alt, ...rest });
  },
  async wrap(key, data, fields = {}) {
    const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', data));
    const sha256 = Array.from(digest, (byte) => byte.toString(16).padStart(2, '0')).join('');
    const variants = [{ media_type: 'image/png', width_px: fields.width_px, size_bytes: data.length, sha256, url: null }];
    this.pictures.set(sha256, data);
    return { key, data, asset: { key, product: '', alt: '', placeholder: '', variants, ...fields } };
  },
  parts({ key, data }, size = 4096) {
    const parts = [];
    for (let offset = 0; offset < data.length; offset += size) {
      parts.push(this.part(key, offset, data.length, data.slice(offset, offset + size)));
    }
    return parts;
  },
  part(key, offset, total, payload, crc = crc32(payload)) {
    const name = new TextEncoder().encode(key), bytes = new Uint8Array(16 + name.length + payload.length);
    const view = new DataView(bytes.buffer);
    view.setUint8(0, 0x4d);
    view.setUint8(1, 1);
    view.setUint16(2, name.length);
    view.setUint32(4, offset);
    view.setUint32(8, total);
    view.setUint32(12, crc);
    bytes.set(name, 16);
    bytes.set(payload, 16 + name.length);
    return bytes;
  },
  send(parts) { for (const part of parts) this.now.images.send(part); },
  async give(key, options) {
    const picture = await this.picture(key, options);
    const event = this.event('asset', picture.asset);
    this.bundle(event);
    this.send(this.parts(picture));
    await until(() => this.of('ready').some((message) => message.key === key));
    await until(() => this.of('painted').at(-1)?.seq >= event.seq);
    return picture;
  },
};

// Bit by bit and not by a table: a second way to the same number.
function crc32(bytes) {
  let crc = 0xffffffff;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return (crc ^ 0xffffffff) >>> 0;
}

// The limit is for what never comes: a busy machine may be long about what does.
window.until = async (holds, what = String(holds)) => {
  const limit = performance.now() + 60000;
  while (!await holds()) {
    if (performance.now() > limit) throw new Error(`waited 60 s for ${what}; got ${JSON.stringify(peer.got.slice(-5))}`);
    await new Promise((done) => setTimeout(done, 5));
  }
};
window.frames2 = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
// The player tells of each thing in a task of its own, behind what it did: after one more, all listeners have heard.
window.told = () => new Promise((done) => setTimeout(done));

window.fetch = async (url, init = {}) => {
  if (init.method === 'DELETE') {
    peer.deletes.push(String(url));
    return realFetch(url, init);
  }
  const { pathname } = new URL(url, document.baseURI), headers = { ...init.headers };
  if (pathname.startsWith('/tour/pictures/')) {
    peer.pulled.push({ pathname, headers });
    if (peer.offline) throw new TypeError('Failed to fetch');
    const data = peer.pictures.get(pathname.split('/').at(-1));
    return data ? new Response(data) : new Response('', { status: 404 });
  }
  if (init.method !== 'POST') return realFetch(url, init);
  peer.posts.push({ url: String(url), headers, body: init.body, at: performance.now() });
  if (peer.offline) throw new TypeError('Failed to fetch');
  if (pathname.endsWith('/messages')) {
    for (const line of init.body.trim().split('\n')) peer.heard(peer.now, JSON.parse(line));
    return new Response('', { status: 204 });
  }
  if (pathname.startsWith('/tour/sse/')) return stream(init);
  const again = /demo\/\d+$/.test(pathname);
  if (peer.refuse || (again && peer.gone)) return new Response(problem(peer.because), { status: peer.refuse || 404 });
  const pc = new RTCPeerConnection(), session = { kind: 'webrtc', pc, end: () => pc.close() };
  session.events = pc.createDataChannel('events', { negotiated: true, id: 0 });
  session.images = pc.createDataChannel('images', { negotiated: true, id: 1, ordered: false });
  session.events.onmessage = ({ data }) => peer.heard(session, JSON.parse(data));
  if (!again) {
    peer.seq = peer.tok = peer.epoch = 0;
    peer.journal = [];
    peer.seat++;
  }
  peer.sessions.push(session);
  await pc.setRemoteDescription({ type: 'offer', sdp: init.body });
  await pc.setLocalDescription();
  await until(() => pc.iceGatheringState === 'complete');
  const sdp = peer.deaf ? pc.localDescription.sdp.replace(/a=candidate.*\r\n/g, '') : pc.localDescription.sdp;
  const Location = `/tour/whep/demo/${peer.seat}`;
  return new Response(sdp, { status: 201, headers: { Location, ...(peer.links && { Link: peer.links }) } });
};

// As the server says why it refuses; a proxy before it has other words.
const problem = (code) => code ? JSON.stringify({ error: { code, message: 'for people', hint: 'what to do' } }) : '<h1>No</h1>';

// Server-sent events, in the answer to a hello.
function stream(init) {
  if (peer.sse === 'refused') return new Response('{"error":{"code":"not_found"}}', { status: 404 });
  if (peer.sse > 400) return new Response(problem(peer.because), { status: peer.sse });
  if (peer.gone) return new Response('{"error":{"code":"no_such_seat"}}', { status: 404 });
  let pipe;
  const body = new ReadableStream({ start: (controller) => pipe = controller });
  const write = (text) => pipe.enqueue(new TextEncoder().encode(`id: 1\ndata: ${text}\n\n`));
  const session = peer.meet('sse', write, () => pipe.error(new TypeError('network error')));
  init.signal.addEventListener('abort', () => session.closed = true);
  peer.heard(session, JSON.parse(init.body));
  return new Response(body, { headers: { 'Content-Type': 'text/event-stream' } });
}

window.WebSocket = class {
  readyState = 0;
  constructor(url) {
    peer.sockets.push(String(url));
    setTimeout(() => {
      if (this.readyState === 3) return;
      if (peer.websocket === 'refused' || peer.offline) return this.over();
      if (peer.websocket > 4000) return this.over(peer.websocket, peer.because);
      if (peer.websocket === 'untaken' && /\d$/.test(url)) return this.over(4404, 'no_such_seat');
      this.readyState = 1;
      if (peer.websocket !== 'silent') {
        this.session = peer.meet('websocket', (data) => this.onmessage({ data: data.buffer ?? data }), () => this.over());
      }
      this.onopen();
    }, 5);
  }
  send(data) { if (this.session) peer.heard(this.session, JSON.parse(data)); }
  close() {
    this.readyState = 3;
    if (this.session) this.session.closed = true;
  }
  over(code = 1006, reason = '') {
    this.readyState = 3;
    this.onclose({ code, reason });
  }
};

for (const [name, list] of [['createObjectURL', 'made'], ['revokeObjectURL', 'revoked']]) {
  const real = URL[name];
  URL[name] = (value) => {
    const result = real.call(URL, value);
    peer[list].push(result ?? value);
    return result;
  };
}

// Layout shifts since the last call, of frames that have been made: an observer hears of them at some time after.
let moved = 0;
const moves = (entries) => { for (const entry of entries) if (!entry.hadRecentInput) moved += entry.value; };
const mover = new PerformanceObserver((list) => moves(list.getEntries()));
mover.observe({ type: 'layout-shift', buffered: true });
window.shifted = async () => {
  await frames2();
  moves(mover.takeRecords());
  const since = moved;
  moved = 0;
  return since;
};
