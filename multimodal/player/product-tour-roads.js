/**
 * What <product-tour> needs when the network fails: coming back to its seat, the other roads, pictures kept from
 * earlier tours. product-tour.js imports it while its first offer is on its way, and plays without it if it must.
 *
 * A road that is lost leaves the stage as it is. The next one begins where the last complete bundle ended ("cursor"),
 * and what the server had not confirmed is said again. WebRTC is tried first; a WebSocket joins in where it does not
 * stand within four seconds, server-sent events where that says nothing either. The first to be heard stays.
 */

/** What is shown when something is wrong; a page may set any of these in `labels`. */
const WORDS = {
  not_found: 'This tour is no longer here.', denied: 'This tour is not open to you.',
  busy: 'Many people are watching just now. Please try again in a moment.',
  ice: 'This network did not let the tour through.', version: 'Please reload the page to get the new player.',
  reconnecting: 'Reconnecting…', taken: 'This tour goes on in another window.',
};

const BACKOFF_MS = [250, 500, 1000], BUSY_MS = 3000;
const GIVE_UP_MS = 60000; // as long as the server keeps a session that nobody watches
const BESIDE_MS = 4000; // WebRTC stands after 0.1 to 1 s, or not at all
const HEAD_START_MS = 1000; // of WebRTC, where it carried the tour once, and something else does now
const MUTE_MS = 2000; // of a WebSocket that some proxy has let through, and swallows
const SILENT_S = 3; // the server pings every second
const STEADY_MS = 3000; // a road that lived so long was one: its loss begins a new minute
const NOTE_MS = 400; // what is mended sooner need not be mentioned
const STALL_MS = 2000; // parts of a picture that have not come by then were lost
const OFFER_MS = 3000, SLOW_OFFER_MS = 10000;
const KEPT_LIMIT = 256; // pictures kept for the next tour
const HAVE_LIMIT = 500; // a hello may name 512
const QUESTION_CHARS = 2001; // one more than a server takes, so that it says so
const RANGES_LIMIT = 64, RESEND_LIMIT = 5, SPOILT_LIMIT = 2, UNSAID_LIMIT = 1000;
const ACKS_MS = 250, POST_MS = 20; // a POST is dear: acks wait for one another

const REFUSED = { 401: 'denied', 403: 'denied', 404: 'not_found', 410: 'not_found', 429: 'busy', 503: 'busy' };

const now = () => performance.now();
const short = (sha256) => sha256.slice(0, 16);
/** The server's own code for why it refused. @param {Response} reply */
const said = async (reply) => (await reply.json().catch(() => null))?.error?.code;

// ---- pictures of earlier tours, by content. Not on plain http, nor where it is forbidden.

const store = (async () => caches.open('product-tour'))().catch(() => null);
const place = (sha256) => `https://picture/${sha256}`;
const kept = async () => ((await (await store)?.keys()) ?? []).map(({ url }) => url.slice(-64));
const take = async (sha256) => {
  const found = await (await store)?.match(place(sha256));
  return found && new Uint8Array(await found.arrayBuffer());
};
/** Keeps a picture, and of all the newest. @param {string} sha256 @param {Uint8Array} data */
const keep = async (sha256, data) => {
  const cache = await store;
  await cache?.put(place(sha256), new Response(data));
  for (const old of (await kept()).slice(0, -KEPT_LIMIT)) await cache?.delete(place(old));
};

// ---- roads

/** A seat's address on another road. */
const address = ({ url, host }, road) => {
  const there = new URL(url ?? host.getAttribute('src') ?? '', document.baseURI);
  there.pathname = there.pathname.replace('/whep/', `/${road}/`);
  return there;
};

/** Text frames are the events channel, binary frames the pictures. */
const websocket = (road) => {
  const { seat } = road, url = address(seat, 'ws'), join_token = seat.host.getAttribute('token') ?? undefined;
  url.protocol = url.protocol.replace('http', 'ws');
  road.kind = 'websocket';
  let socket;
  try {
    socket = new WebSocket(url);
  } catch {
    return queueMicrotask(() => road.fail('lost'));
  }
  socket.binaryType = 'arraybuffer';
  // The hello shows the token: a page cannot give a WebSocket a header.
  road.put = (text) => socket.send(text.startsWith('{"type":"hello"') ? JSON.stringify({ ...JSON.parse(text), join_token }) : text);
  road.hangUp = () => socket.close();
  socket.onopen = () => road.hello();
  socket.onmessage = ({ data }) => typeof data === 'string' ? road.message(data) : road.part(data);
  // A page learns nothing of a refused upgrade, so the server accepts, and closes with 4000 and the HTTP status.
  socket.onclose = ({ code, reason }) => road.fail('lost', code > 4000 ? { status: code - 4000, reason } : undefined);
};

/** Words come as server-sent events in the answer to the hello, ours leave as lines by POST, pictures have a URL each. */
const sse = (road) => {
  const { seat } = road, stop = new AbortController(), { signal } = stop;
  const lanes = [Promise.resolve(), Promise.resolve()];
  let begun = false, busy = false, timer = 0, due = Infinity, waiting = [], { url } = seat;
  // A seat that has said goodbye has no address any more, and its last words still have to get there.
  const at = (name) => address({ url: url = seat.url ?? url, host: seat.host }, name).href;
  const ask = (url, init = {}) => fetch(url, { ...init, signal, headers: seat.headers(init.headers) });
  road.kind = 'sse';
  road.hangUp = () => stop.abort();
  road.put = (text) => {
    const is = (type) => text.startsWith(`{"type":"${type}"`);
    if (!begun) return void (begun = true, read(text));
    if (is('ping')) return; // the server's own come often enough
    if (is('ack')) waiting = waiting.filter((other) => !other.startsWith('{"type":"ack"'));
    waiting.push(text);
    later(is('ack') || is('painted') ? ACKS_MS : POST_MS);
  };
  /** A picture's bytes. Two at a time: a browser has six connections to a server, and words and acks need theirs. */
  road.pull = (sha256) => {
    const pull = async () => {
      const reply = await ask(`${at('pictures')}/${sha256}`);
      if (!reply.ok) throw new Error(`${reply.status}`);
      return new Uint8Array(await reply.arrayBuffer());
    };
    lanes.push(lanes.shift().then(pull, pull));
    return lanes[1];
  };
  const later = (ms) => {
    const when = now() + ms;
    if (busy || when >= due) return;
    clearTimeout(timer);
    due = when;
    timer = setTimeout(post, ms);
  };
  const post = async () => {
    const lines = waiting.splice(0), said = seat.unsaid.length;
    due = Infinity;
    busy = true;
    let status = 0;
    try {
      const headers = { 'Content-Type': 'application/x-ndjson' };
      const reply = await ask(`${at('sse')}/messages`, { method: 'POST', body: `${lines.join('\n')}\n`, headers });
      ({ status } = reply);
      if (reply.ok) seat.unsaid.splice(0, said);
    } catch {
      // The stream itself will tell whether the road is lost.
    }
    busy = false;
    if (road.over) return;
    if (status === 404) return road.fail('lost');
    const again = !status || status === 429 || status === 503;
    if (again) waiting.unshift(...lines);
    if (waiting.length) later(again ? 500 : ACKS_MS);
  };
  const read = async (hello) => {
    let code = 'network';
    try {
      const headers = { 'Content-Type': 'application/json', Accept: 'text/event-stream' };
      const reply = await ask(at('sse'), { method: 'POST', body: hello, headers });
      if (!reply.ok) {
        const { status } = reply, reason = await said(reply);
        // Not every 404 speaks of the tour: a server may know no such road.
        return road.fail('server', status !== 404 || /^no_such/.test(reason) ? { status, reason } : undefined);
      }
      code = 'lost';
      const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let rest = ''; ;) {
        const { value, done } = await reader.read();
        if (done) break;
        const events = (rest + value).split('\n\n');
        rest = events.pop();
        for (const event of events) {
          const data = event.split('\n').filter((line) => line.startsWith('data: ')).map((line) => line.slice(6));
          if (data.length) road.message(data.join('\n'));
        }
      }
    } catch {
      // Told below.
    }
    road.fail(code);
  };
  road.hello();
};

/** The TURN servers of an answer's `Link` headers. */
const turn = (links) => Array.from((links ?? '').matchAll(/<((?:turn|stun)s?:[^>]*)>([^<]*)/g), ([, urls, rest]) => {
  const of = (name) => new RegExp(`${name}="([^"]*)"`).exec(rest)?.[1];
  return { urls, ...(of('username') && { username: of('username'), credential: of('credential') }) };
});

// ---- coming back

/** Keeps a seat reachable, from its first road to its end. */
class Journey {
  #kind = ''; #since = now(); #tries = 0; #began = now(); #heardAt = 0; #mark = -1; #why = ''; #first = null; #taken = false; #said = '';
  #beside = 0; #mute = 0; #again = 0; #note = 0; #chained = false; #streamed = false; #noSocket = false; #stood = false; #relayed = false; #pc = null;
  #done = new AbortController(); #stalls = new WeakMap(); #bytes = 0; #bytesAt = 0;

  /** @param {object} seat @param {object} player @param {Set<string>} cached pictures that are kept already */
  constructor(seat, { labels, Road, webrtc }, cached) {
    Object.assign(this, { seat, labels, Road, webrtc, cached });
    const { signal } = this.#done, { close, road } = seat, watch = setInterval(() => this.#watch(), 500);
    seat.patience = SILENT_S;
    seat.unsaid = [];
    seat.told = (...word) => this.#told(...word);
    seat.arrived = (heard) => this.#arrived(heard);
    seat.lost = (...loss) => this.#lost(...loss);
    seat.unfold = (events) => events.flatMap((event) => this.#unfolded(event));
    seat.checked = (...picture) => this.#checked(...picture);
    seat.send = (said) => {
      // What is larger than a message may be would close the road, and each that comes after it.
      const message = said.text ? { ...said, text: said.text.slice(0, QUESTION_CHARS) } : said;
      seat.unsaid.push({ message, ping: seat.pings });
      if (seat.unsaid.length > UNSAID_LIMIT) seat.unsaid.shift();
      seat.road.send(message);
    };
    seat.close = () => {
      this.#done.abort();
      clearInterval(watch);
      this.#calm();
      this.#tell('');
      close.call(seat);
    };
    for (const event of ['online', 'pageshow']) addEventListener(event, () => this.#wake(), { signal });
    document.addEventListener('visibilitychange', () => document.hidden || this.#wake(), { signal });
    // A page that the browser puts by for later keeps its seat; one that goes gives it up.
    seat.rest = ({ persisted }) => {
      if (persisted && this.#alive()) seat.road.fail('lost');
      return persisted;
    };
    this.#pc = road.pc;
    if (road.heard) this.#arrived(road);
    else this.#beside = setTimeout(() => this.#chain('ice_timeout'), BESIDE_MS - road.silent * 1000);
  }

  #alive() {
    return !this.seat.over && /playing|paused|connecting/.test(this.seat.host.state);
  }

  #calm() {
    for (const timer of [this.#beside, this.#mute, this.#again, this.#note]) clearTimeout(timer);
    this.#note = 0;
  }

  #tell(note) {
    const { seat } = this, { host } = seat;
    if (note === seat.note) return;
    seat.note = note;
    host.toggleAttribute('reconnecting', !!note);
    host._set(host.state);
  }

  #told(road, message) {
    const { seat } = this, { type, id } = message ?? {};
    road.at = now();
    if (type === 'pong') seat.unsaid = seat.unsaid.filter(({ ping }) => ping > id);
    if (type === 'bye') {
      this.#said = message.reason;
      this.#taken = /^taken over/.test(this.#said);
    }
    if (type === 'seat') {
      const place = new URL(message.path, address(seat, 'whep'));
      if (seat.url && seat.url.href !== place.href) seat.end(seat.url);
      seat.url = place;
    }
    if (type !== 'bundle') return;
    for (const event of message.events) {
      if (event.kind !== 'asset') continue;
      // A server that was started again describes it anew, and does not know that it is here.
      if (seat.pictures.get(event.key)?.image) seat.send({ type: 'ready', key: event.key, ok: true, reason: '' });
      else this.#provide(road, event);
    }
  }

  /** The first word on a road: the others are given up, and what may not have arrived on the last is said again. */
  #arrived(road) {
    const { seat } = this, { host } = seat;
    for (const other of seat.roads) if (other !== road) other.close();
    this.#calm();
    this.#tell('');
    this.#said = '';
    seat.road = road;
    if (this.#kind) {
      for (const said of seat.unsaid) {
        said.ping = seat.pings;
        road.send(said.message);
      }
      // A server that was started again does not know of it.
      const told = seat.unsaid.some(({ message }) => message.type === 'pause');
      if (host.state === 'paused' && !told) road.send({ type: 'pause' });
    }
    this.#kind = road.kind;
    this.#noSocket ||= road.kind === 'sse';
    this.#stood ||= road.kind === 'webrtc';
    this.#heardAt = now();
    host._emit('road', { road: road.kind, reason: road.why ?? '', ...road.ice });
    if (road.pull) for (const picture of seat.pictures.values()) this.#provide(road, picture);
  }

  async #lost(road, code, reply) {
    const { seat } = this, taken = this.#taken, first = !this.#kind, status = reply?.status;
    this.#taken = false;
    code = REFUSED[status] ?? code;
    this.#said = (reply?.json ? await said(reply) : reply?.reason) || this.#said;
    if (!this.#alive()) return seat.close();
    if (taken && road.nth === seat.said) { // and not by a later road of our own
      seat.url = null; // it is the other one's now
      return this.#fail('taken');
    }
    if (code === 'not_found') {
      const untaken = first && seat.url && road.kind !== 'webrtc';
      seat.url = null;
      // A seat that nobody has taken goes with the road that led to it.
      if (untaken) return this.#open(road.kind === 'sse' ? sse : websocket, road.why);
    }
    // One that stood, and fell before its first word, is worth another try; so is an offer to a shop that has answered one.
    const again = !first || (road.kind === 'webrtc' && (code === 'lost' || (code === 'network' && seat.url)) && this.#tries < 3);
    if (code === 'version' || code === 'denied' || (first && status)) return this.#fail(code, status);
    if (code === 'not_found') return this.#fail('lost', status);
    if (road.heard) this.#left(road);
    else if (road.kind === 'webrtc') {
      if (code === 'ice') this.#chain('ice_failed');
      else if (!again) return this.#fail(code, status);
      this.#first = [code, status];
    } else if (road.kind === 'websocket') this.#stream('websocket_refused');
    if (seat.roads.size) return; // one of them may still stand
    if (!again) return this.#fail(...this.#first ?? [code, status]);
    const wait = code === 'busy' ? BUSY_MS : BACKOFF_MS[Math.min(this.#tries, BACKOFF_MS.length - 1)];
    this.#again = setTimeout(() => this.#attempt(), Math.max(0, wait - (now() - this.#began)));
  }

  /** It is over, and why: as we call it, and as the server did last, in its code or its goodbye. */
  #fail(code, status) {
    this.seat.host._fail(code, { status, reason: this.#said || undefined });
  }

  /** The road that carried us has gone. */
  #left(road) {
    const { seat } = this;
    this.#began = now();
    if (seat.cursor !== this.#mark || this.#began - this.#heardAt > STEADY_MS) {
      this.#since = this.#began;
      this.#tries = 0;
    }
    this.#mark = seat.cursor;
    this.#why = road.silent > SILENT_S ? 'silent' : 'closed';
    this.#note ||= setTimeout(() => this.#tell(this.labels.reconnecting), NOTE_MS);
  }

  #attempt() {
    const { seat } = this;
    for (const timer of [this.#again, this.#beside, this.#mute]) clearTimeout(timer);
    if (!this.#alive()) return;
    for (const road of seat.roads) road.close();
    this.#began = now();
    if (this.#began - this.#since > GIVE_UP_MS) return this.#fail('lost');
    // Most offers that take longer were sent into a hole; a slow network gets its turn all the same.
    seat.limit = ++this.#tries % 3 ? OFFER_MS : SLOW_OFFER_MS;
    seat.turn = turn(seat.links);
    for (const { image, variants } of seat.pictures.values()) {
      if (image && variants[0]?.sha256) seat.have.add(short(variants[0].sha256));
    }
    seat.have = new Set([...seat.have].slice(-HAVE_LIMIT));
    this.#chained = this.#streamed = false;
    // Where WebRTC never got through, nothing is lost by asking both at once; where it fell silent, that counts.
    const before = this.#why === 'silent' ? SILENT_S * 1000 : 0;
    const other = this.#kind && this.#kind !== 'webrtc', head = this.#stood ? HEAD_START_MS : 0;
    this.#beside = setTimeout(() => this.#chain('ice_timeout'), other ? head : BESIDE_MS - before);
    const road = new this.Road(seat, this.webrtc);
    road.why = this.#why;
    this.#pc = road.pc;
  }

  /** The WebSocket, beside WebRTC or in its place. */
  #chain(why) {
    if (this.#chained || !this.#alive()) return;
    this.#chained = true;
    if (this.#noSocket) return this.#stream(why);
    this.#open(websocket, why);
    this.#mute = setTimeout(() => this.#stream('websocket_silent'), MUTE_MS);
  }

  #stream(why) {
    clearTimeout(this.#mute);
    if (this.#streamed || !this.#alive()) return;
    this.#streamed = true;
    this.#open(sse, why);
  }

  #open(how, why) {
    const pc = this.#pc, road = new this.Road(this.seat, how);
    road.why = why;
    const local = new Set(Array.from((pc?.localDescription?.sdp ?? '').matchAll(/ typ (\w+)/g), ([, type]) => type));
    road.ice = { ice: pc?.iceConnectionState ?? '', candidates: [...local] };
  }

  /** The network has changed, or the page was asleep. */
  #wake() {
    const { road } = this.seat;
    if (!this.#alive() || !this.#kind) return;
    if (road.over) {
      if (now() - this.#began > BACKOFF_MS[1]) this.#attempt();
    } else if (road.heard) { // a sign of life within a second or two
      road.silent = Math.max(road.silent, SILENT_S - 1);
      road.at = Math.max(road.at, now() - SILENT_S * 500);
    }
  }

  // ---- pictures

  /** Gets a picture by another way than in parts: it was kept, or this road has an address for it. */
  async #provide(road, { key, variants }) {
    const { seat } = this, variant = variants?.find(({ url }) => url) ?? variants?.[0];
    const wanted = () => !road.over && !seat.pictures.get(key)?.settled;
    if (!variant?.sha256 || variant.url || !wanted()) return;
    let data = null;
    if (seat.have.has(short(variant.sha256))) {
      data = await take(variant.sha256).catch(() => null);
      if (!data) seat.have.delete(short(variant.sha256)); // thrown away meanwhile
      if (!data && !road.pull) return road.send({ type: 'need', key });
    }
    for (let tries = 3; road.pull && !data && wanted() && tries--;) {
      data = await road.pull(variant.sha256).catch(() => null);
      if (!data && !tries) return seat.send({ type: 'ready', key, ok: false, reason: 'unreachable' });
      if (!data) await new Promise((done) => setTimeout(done, STALL_MS / 2));
    }
    if (data && !seat.over) seat.host._part(key, 0, data.length, data);
  }

  /** What a picture's bytes are worth; true: they are not those announced, and come again. */
  #checked(picture, sha256, data, right) {
    const { seat, cached } = this, { key } = picture, { road } = seat;
    if (right) {
      // A full disk costs the next tour its bytes, not this one.
      if (!cached.has(short(sha256))) keep(sha256, data).then(() => cached.add(short(sha256)), () => {});
      return false;
    }
    seat.have.delete(short(sha256));
    picture.spoilt = (picture.spoilt ?? 0) + 1;
    if (picture.spoilt > SPOILT_LIMIT) return false;
    setTimeout(() => road.pull ? this.#provide(road, picture) : road.send({ type: 'need', key }));
    return true;
  }

  /** Twice a second: parts that came spoilt, or not at all, are asked for again. */
  #watch() {
    const { seat } = this, { road } = seat, t = now();
    if (road.bytes !== this.#bytes) this.#bytesAt = t;
    this.#bytes = road.bytes;
    // The offer was made before the server could tell of a relay: where there is no other way, it will never stand.
    const { iceServers, iceTransportPolicy } = seat.host, alone = !this.#kind && iceTransportPolicy === 'relay';
    if (alone && !iceServers.length && !this.#relayed && seat.url && seat.links) {
      this.#relayed = true;
      return this.#attempt();
    }
    if (road.over || !road.heard) return;
    // Sooner than the road's own beat, which is coarse; but not by the clock alone, which goes on while a page sleeps.
    if (road.silent >= SILENT_S && t - Math.max(road.at, this.#bytesAt) > SILENT_S * 1000) {
      road.silent = SILENT_S + 1;
      return road.fail();
    }
    if (road.pull) return;
    for (const picture of seat.pictures.values()) {
      const { key, parts, settled, whole } = picture;
      if (!parts || settled || whole) continue;
      const got = parts.ranges.reduce((sum, [from, to]) => sum + to - from, 0);
      const stall = this.#stalls.get(picture) ?? { asked: 0 };
      if (stall.got !== got) this.#stalls.set(picture, Object.assign(stall, { got, since: t, road }));
      if (t - stall.since < STALL_MS || stall.asked >= RESEND_LIMIT) continue;
      const holes = [];
      let end = 0;
      for (const [from, to] of parts.ranges.sort(([a], [b]) => a - b)) {
        if (from > end) holes.push([end, from]);
        end = to;
      }
      // What lies behind the last part may still be on its way, unless nothing is; what lies before it is lost.
      if (t - this.#bytesAt < STALL_MS) {
        if (stall.road !== road) continue;
      } else if (end < parts.total) holes.push([end, parts.total]);
      if (!holes.length) continue;
      stall.asked++;
      stall.since = t;
      road.send({ type: 'resend', key, ranges: holes.slice(0, RANGES_LIMIT) });
    }
  }

  // ---- late, or after a gap

  /** A snapshot as the events that lead there. Without an epoch, so that none of them is taken for an older turn's. */
  #unfolded(event) {
    if (event.kind === 'gap') return [];
    if (event.kind !== 'snapshot') return [event];
    const { seat } = this, { host } = seat, { seq, tok, text, start, shown = [], previews = [], ended } = event;
    for (const asset of event.assets ?? []) {
      host._asset(asset);
      this.#provide(seat.road, asset);
    }
    if (event.continued) return [];
    host._emit('snapshot', event);
    const count = text.split(/\s+/).filter(Boolean).length, told = { seq, epoch: undefined, restored: true };
    const events = [{ kind: 'interrupt', seq, tok: event.base, fresh: event.epoch }, { ...start, ...told, kind: 'start' }];
    if (text) events.push({ ...told, kind: 'text', text, token_index: Math.max(0, tok - count), token_count: count });
    for (const reveal of shown) events.push({ ...reveal, ...told, preview: previews.includes(reveal.cue) });
    if (ended) events.push({ ...told, kind: 'end', reason: ended, unused: [] });
    return events;
  }
}

/**
 * Looks after a seat from now on; true, once it is known which pictures are here.
 * @param {object} seat @param {{labels: object, Road: Function, webrtc: Function}} player
 */
export const attend = async (seat, player) => {
  for (const word in WORDS) player.labels[word] ??= WORDS[word];
  const cached = new Set();
  new Journey(seat, player, cached);
  for (const sha256 of await kept().catch(() => [])) {
    cached.add(short(sha256));
    seat.have.add(short(sha256));
  }
  return true;
};
