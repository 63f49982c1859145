"""Coming back, and the other roads, against a peer in the page: nothing lost, nothing twice, and what is seen of it."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page

from multimodal import wire
from tests.player.conftest import Opened

_WORDS = "root.querySelector('[part=text] div').textContent"
_SEEN = "tour.log.filter((e) => e.vantage === 'arrived').map((e) => e.seq)"
_ROADS = "tour.addEventListener('tour-road', ({detail}) => (window.roads ??= []).push(detail))"
_KETTLE = "{id: 'k', title: 'Halo Kettle', price: '89.00', currency: 'EUR', aliases: [], url: ''}"


def _open(opened: Opened, set_up: str, attributes: str = "") -> Page:
    """A tour that is being begun, after `set_up`."""
    page = opened(attributes)
    page.evaluate(f"() => {{ {_ROADS}; {set_up}; tour.play(); }}")
    return page


def test_a_lost_road_is_found_again_and_no_word_is_lost_or_doubled(playing: Opened) -> None:
    page = playing()
    result = page.evaluate(
        f"""async () => {{
          {_ROADS};
          const states = [];
          new MutationObserver(() => states.push(tour.state)).observe(tour, {{attributeFilter: ['state']}});
          peer.bundle(peer.text('one '), peer.text('two '));
          await until(() => root.querySelector('[data-tok="1"]'));
          peer.cut();
          peer.bundle(peer.text('three '));
          peer.bundle(peer.text('four'));
          await until(() => root.querySelector('[data-tok="3"]'));
          await told();
          return {{words: {_WORDS}, seen: {_SEEN}, states, hellos: peer.of('hello'),
                  posts: peer.posts.map((p) => p.url), roads, deletes: peer.deletes, road: tour.road}};
        }}"""
    )
    assert result["words"] == "one two three four"
    assert result["seen"] == [0, 1, 2, 3, 4]
    assert set(result["states"]) <= {"playing"}
    assert [(hello["cursor"], hello["resume"]) for hello in result["hellos"]] == [(-1, False), (2, True)]
    assert result["posts"] == ["http://localhost/tour/whep/demo", "http://localhost/tour/whep/demo/1"]
    assert result["roads"] == [{"road": "webrtc", "reason": "closed"}]
    assert (result["deletes"], result["road"]) == ([], "webrtc")


def test_a_road_that_falls_before_its_first_word_is_built_again(opened: Opened) -> None:
    page = _open(opened, "peer.falls = 1")
    result = page.evaluate(
        f"""async () => {{
          await until(() => peer.of('hello').length === 2);
          peer.bundle(peer.start(), peer.text('one'));
          await until(() => root.querySelector('.word'));
          return [{_WORDS}, {_SEEN}, peer.of('hello').map((hello) => hello.resume), peer.sockets.length, tour.road];
        }}"""
    )
    assert result == ["one", [0, 1], [False, True], 0, "webrtc"]


def test_an_offer_to_a_shop_that_has_answered_one_is_made_again(opened: Opened) -> None:
    """The first road falls before its first word, and the network with it: the seat is there, so it is worth a wait."""
    page = _open(opened, "peer.falls = 1")
    result = page.evaluate(
        f"""async () => {{
          await until(() => peer.of('hello').length === 1);
          peer.offline = true;
          setTimeout(() => peer.offline = false, 600);
          await until(() => peer.of('hello').length === 2 || tour.state === 'error');
          peer.bundle(peer.start(), peer.text('one'));
          await until(() => root.querySelector('.word') || tour.state === 'error');
          return [tour.state, {_WORDS}, {_SEEN}, tour.road];
        }}"""
    )
    assert result == ["playing", "one", [0, 1], "webrtc"]


def test_half_a_bundle_comes_again_whole(playing: Opened) -> None:
    page = playing()
    result = page.evaluate(
        f"""async () => {{
          peer.bundle(peer.text('one '));
          peer.some(peer.text('half '));
          await until(() => peer.of('ack').at(-1)?.seq === 2);
          peer.cut();
          peer.bundle(peer.text('whole'));
          await until(() => root.querySelector('[data-tok="2"]'));
          return [{_WORDS}, {_SEEN}, peer.of('hello')[1].cursor];
        }}"""
    )
    assert result == ["one half whole", [0, 1, 2, 3], 1]


def test_a_hole_is_not_painted_over(playing: Opened) -> None:
    page = playing()
    result = page.evaluate(
        f"""async () => {{
          peer.journal.push(peer.text('lost '));
          peer.bundle(peer.text('after'));
          await until(() => root.querySelector('[data-tok="1"]'));
          return [{_WORDS}, {_SEEN}, peer.of('hello')[1].cursor];
        }}"""
    )
    assert result == ["lost after", [0, 1, 2], 0]


def test_silence_is_a_lost_road_and_is_said_quietly(playing: Opened) -> None:
    page = playing()
    result = page.evaluate(
        f"""async () => {{
          {_ROADS};
          const said = [], message = root.querySelector('[part=message]');
          new MutationObserver(() => said.push(message.textContent)).observe(message, {{childList: true}});
          const before = peer.of('ping').length;
          peer.mute = peer.offline = true;
          await until(() => tour.hasAttribute('reconnecting'));
          const unanswered = peer.of('ping').length - before, {{state}} = tour;
          peer.mute = peer.offline = false;
          await until(() => peer.of('hello').length === 2 && !tour.hasAttribute('reconnecting') && window.roads);
          return {{unanswered, state, said, last: message.textContent, reason: roads[0].reason}};
        }}"""
    )
    # One a second; an answer to the one before may still have been on its way.
    assert result["unanswered"] in {3, 4}
    assert result["state"] == "playing"
    assert result["said"][0] == "Reconnecting…"
    assert (result["last"], result["reason"]) == ("", "silent")


def test_a_tab_that_takes_over_leaves_this_one_at_rest(playing: Opened) -> None:
    page = playing()
    result = page.evaluate(
        """async () => {
          let detail;
          tour.addEventListener('tour-error', (event) => detail = event.detail);
          peer.say({type: 'bye', reason: 'taken over by another connection'});
          await until(() => detail);
          await new Promise((done) => setTimeout(done, 1200));
          const message = root.querySelector('[part=message]').textContent;
          return {code: detail.code, reason: detail.reason, message, state: tour.state,
                  posts: peer.posts.length, deletes: peer.deletes};
        }"""
    )
    assert result == {
        "code": "taken",
        "reason": "taken over by another connection",
        "message": "This tour goes on in another window.",
        "state": "error",
        "posts": 1,
        "deletes": [],
    }


def test_a_seat_that_is_gone_ends_the_tour(playing: Opened) -> None:
    page = playing()
    result = page.evaluate(
        """async () => {
          let detail;
          tour.addEventListener('tour-error', (event) => detail = event.detail);
          peer.gone = true;
          peer.because = 'no_such_seat';
          peer.cut();
          await until(() => detail);
          return [detail.code, detail.status, detail.reason, peer.deletes];
        }"""
    )
    assert result == ["lost", 404, "no_such_seat", []]


def test_a_goodbye_that_is_the_last_word_is_the_reason(playing: Opened) -> None:
    page = playing()
    result = page.evaluate(
        """async () => {
          let detail;
          tour.addEventListener('tour-error', (event) => detail = event.detail);
          peer.say({type: 'bye', reason: 'the server is stopping'});
          peer.offline = true;
          await until(() => peer.posts.length > 2);
          const real = performance.now.bind(performance);
          performance.now = () => real() + 61000;
          await until(() => detail);
          return [detail.code, detail.status, detail.reason];
        }"""
    )
    assert result == ["lost", None, "the server is stopping"]


def test_after_a_minute_it_gives_up_and_can_be_begun_anew(playing: Opened) -> None:
    page = playing()
    result = page.evaluate(
        """async () => {
          let detail;
          tour.addEventListener('tour-error', (event) => detail = event.detail);
          peer.offline = true;
          peer.cut();
          await until(() => peer.posts.length > 3);
          const gaps = peer.posts.slice(1).map(({at}, i) => at - peer.posts[i].at).slice(1);
          const real = performance.now.bind(performance);
          performance.now = () => real() + 61000;
          await until(() => detail);
          peer.offline = false;
          tour.play();
          await until(() => peer.of('hello').length === 2);
          return {code: detail.code, gaps, deletes: peer.deletes.length, attribute: tour.hasAttribute('reconnecting')};
        }"""
    )
    assert (result["code"], result["deletes"], result["attribute"]) == ("lost", 1, False)
    # Half a second, and one; what a busy machine adds.
    assert all(200 < gap < 5000 for gap in result["gaps"]), result["gaps"]


def test_a_network_that_returns_is_tried_at_once(playing: Opened) -> None:
    page = playing()
    waited = page.evaluate(
        """async () => {
          const refused = window.fetch;
          window.fetch = () => new Promise(() => peer.posts.push({at: performance.now()})); // a hole
          peer.cut();
          await until(() => peer.posts.length === 2);
          await new Promise((done) => setTimeout(done, 600));
          window.fetch = refused;
          const start = performance.now();
          dispatchEvent(new Event('online'));
          await until(() => peer.of('hello').length === 2);
          return performance.now() - start;
        }"""
    )
    assert waited < 8000, "without the event the offer that fell into the hole is waited for, which takes 10 s"


def test_what_the_server_may_not_have_heard_is_said_again(playing: Opened) -> None:
    page = playing()
    result = page.evaluate(
        """async () => {
          peer.bundle(peer.text('one '));
          await until(() => peer.of('painted').length === 2);
          const ping = () => peer.got.findLastIndex((message) => message.type === 'ping');
          await until(() => ping() > peer.got.findLastIndex((message) => message.type === 'painted'));
          const {id, t_ms} = peer.got[ping()];
          peer.say({type: 'pong', id, t_ms, at_ms: 0}); // so much was heard
          await until(() => peer.of('ping').length >= id + 2);
          peer.bundle(peer.text('two '));
          await until(() => peer.of('painted').length === 3);
          peer.cut();
          await until(() => peer.posts.length === 1);
          tour.pause();
          const before = peer.got.length;
          await until(() => peer.of('pause').length);
          const said = peer.got.slice(before).filter(({type}) => type !== 'ping' && type !== 'ack');
          return said.map(({type, seq}) => [type, seq]);
        }"""
    )
    assert [entry[0] for entry in result] == ["hello", "painted", "pause"]
    assert result[1][1] == 2


def test_a_pause_outlives_the_road(playing: Opened) -> None:
    page = playing()
    result = page.evaluate(
        """async () => {
          tour.pause();
          await until(() => peer.of('pause').length);
          peer.cut();
          await until(() => peer.of('hello').length === 2);
          return tour.state;
        }"""
    )
    assert result == "paused"


def test_pictures_that_are_here_need_not_come_again(playing: Opened) -> None:
    page = playing()
    result = page.evaluate(
        """async () => {
          const {asset} = await peer.give('a');
          const half = await peer.picture('b', {pad: 9000, color: '#33c'}), parts = peer.parts(half, 2000);
          peer.bundle(peer.event('asset', half.asset));
          peer.send(parts.slice(0, 2));
          await until(() => peer.of('ack').at(-1).picture_bytes > 3000);
          peer.cut();
          peer.bundle(peer.text('w '), peer.mark(), peer.reveal('b'));
          await until(() => peer.of('hello').length === 2);
          peer.send(parts);
          await until(() => peer.of('ready').some(({key}) => key === 'b'));
          await until(() => root.querySelector('[data-key=b]')?.naturalWidth);
          const {have} = peer.of('hello')[1];
          return [have.includes(asset.variants[0].sha256.slice(0, 16)), have.length];
        }"""
    )
    assert result == [True, 1]


def test_a_server_that_was_started_again_hears_what_is_here(playing: Opened) -> None:
    page = playing()
    result = page.evaluate(
        """async () => {
          const {asset} = await peer.give('a');
          await until(() => peer.of('ready').length === 1);
          peer.cut();
          peer.bundle(peer.text('w '));
          await until(() => peer.of('hello').length === 2);
          const before = peer.of('ready').length;
          peer.bundle(peer.event('asset', asset));
          await until(() => peer.of('ready').length > before);
          return peer.of('ready').at(-1);
        }"""
    )
    assert result == {"type": "ready", "key": "a", "ok": True, "reason": ""}


def test_two_returns_without_progress_still_come_back(playing: Opened) -> None:
    page = playing()
    result = page.evaluate(
        f"""async () => {{
          peer.bundle(peer.text('one '));
          await until(() => root.querySelector('[data-tok="0"]'));
          for (let times = 2; times < 5; times++) {{
            peer.cut();
            await until(() => peer.of('hello').length === times);
          }}
          peer.bundle(peer.text('two'));
          await until(() => root.querySelector('[data-tok="1"]'));
          return [{_WORDS}, {_SEEN}];
        }}"""
    )
    assert result == ["one two", [0, 1, 2]]


def test_a_page_that_is_put_by_keeps_its_seat(playing: Opened) -> None:
    page = playing()
    result = page.evaluate(
        """async () => {
          dispatchEvent(new PageTransitionEvent('pagehide', {persisted: true}));
          const at = [tour.state, peer.deletes.length];
          dispatchEvent(new PageTransitionEvent('pageshow', {persisted: true}));
          await until(() => peer.of('hello').length === 2);
          return [...at, peer.of('hello')[1].cursor];
        }"""
    )
    assert result == ["playing", 0, 0]


def test_an_end_that_is_applied_after_the_loss_is_the_end(playing: Opened) -> None:
    page = playing()
    result = page.evaluate(
        """async () => {
          const paint = window.requestAnimationFrame;
          let frame;
          window.requestAnimationFrame = (apply) => { frame = apply; return 1; };
          peer.bundle(peer.text('Done.'), peer.event('end', {reason: 'complete', unused: []}));
          await until(() => frame);
          peer.cut();
          await new Promise((done) => setTimeout(done, 50));
          frame(performance.now());
          await until(() => peer.deletes.length);
          await new Promise((done) => setTimeout(done, 600));
          return [tour.state, peer.posts.length, root.querySelector('[part=message]').textContent];
        }"""
    )
    assert result == ["ended", 1, ""]


# ---- the other roads


@pytest.mark.parametrize("websocket", ["open", "untaken"])
def test_a_websocket_joins_in_after_four_seconds(opened: Opened, websocket: str) -> None:
    set_up = f"peer.deaf = true; peer.websocket = '{websocket}'; window.begun = performance.now()"
    page = _open(opened, set_up, 'token="s3cret"')
    result = page.evaluate(
        f"""async () => {{
          await until(() => peer.of('hello').length);
          const after = performance.now() - begun, before = peer.sockets.length;
          peer.bundle(peer.start([{_KETTLE}]), peer.text('By socket '));
          await peer.give('a', {{pad: 20000}});
          peer.bundle(peer.mark(), peer.reveal('a'));
          await until(() => root.querySelector('[data-key=a]')?.naturalWidth);
          await until(() => peer.of('ack').at(-1).picture_bytes > 20000);
          return {{after, before, sockets: peer.sockets, hello: peer.of('hello')[0], words: {_WORDS}, roads,
                  road: tour.road}};
        }}"""
    )
    assert 3500 < result["after"] < 9000, "without it the offer is waited for, which takes 10 s"
    at_its_seat, anew = "ws://localhost/tour/ws/demo/1", "ws://localhost/tour/ws/demo"
    # The seat that the offer has opened; a server may have given that up, since nobody took it.
    assert result["sockets"] == ([at_its_seat] if websocket == "open" else [at_its_seat, anew])
    assert result["hello"]["join_token"] == "s3cret"
    assert wire.decode_client(_json(result["hello"]))
    assert result["words"] == "By socket"
    assert [(road["road"], road["reason"]) for road in result["roads"]] == [("websocket", "ice_timeout")]
    assert result["roads"][0]["candidates"] == ["host"]
    assert result["road"] == "websocket"


def test_no_webrtc_at_all_is_no_reason_to_wait(opened: Opened) -> None:
    page = _open(opened, "RTCPeerConnection = undefined; peer.websocket = 'open'; window.begun = performance.now()")
    result = page.evaluate(
        f"""async () => {{
          await until(() => peer.of('hello').length);
          const after = performance.now() - begun;
          peer.bundle(peer.start(), peer.text('one '));
          await until(() => root.querySelector('.word'));
          peer.cut();
          peer.bundle(peer.text('two'));
          await until(() => root.querySelector('[data-tok="1"]') && roads.length === 2);
          const why = roads.map(({{reason}}) => reason);
          return {{after, sockets: peer.sockets, words: {_WORDS}, seen: {_SEEN}, why}};
        }}"""
    )
    assert result["after"] < 4000, "after so long a WebSocket would join in anyway"
    assert result["sockets"] == ["ws://localhost/tour/ws/demo", "ws://localhost/tour/ws/demo/1"]
    assert (result["words"], result["seen"]) == ("one two", [0, 1, 2])
    assert result["why"] == ["ice_failed", "ice_failed"]


@pytest.mark.parametrize("websocket", ["refused", "silent"])
def test_server_sent_events_are_the_last_road(opened: Opened, websocket: str) -> None:
    set_up = f"RTCPeerConnection = undefined; peer.websocket = '{websocket}'; peer.sse = 'open'"
    page = _open(opened, f"{set_up}; window.begun = performance.now()", 'token="s3cret"')
    result = page.evaluate(
        f"""async () => {{
          await until(() => peer.of('hello').length);
          const after = performance.now() - begun, opening = peer.posts.at(-1);
          peer.bundle(peer.start([{_KETTLE}]), peer.text('By '));
          const picture = await peer.picture('a');
          peer.bundle(peer.event('asset', picture.asset));
          await until(() => peer.of('ready').length);
          for (let n = 0; n < 40; n++) peer.bundle(peer.text('post '));
          peer.bundle(peer.mark(), peer.reveal('a'));
          await until(() => root.querySelector('[data-key=a]')?.naturalWidth);
          tour.pause();
          await until(() => peer.of('pause').length && peer.of('ack').at(-1)?.seq === peer.seq - 1);
          peer.say({{type: 'ping', id: 9, t_ms: 2}});
          await until(() => peer.of('pong').length);
          const messages = peer.posts.filter(({{url}}) => url.endsWith('/messages'));
          return {{after, url: opening.url, headers: opening.headers, pulled: peer.pulled, words: {_WORDS},
                  posts: messages.length, acks: peer.of('ack').length, post: messages[0], pings: peer.of('ping').length,
                  reason: roads[0].reason, road: tour.road, kinds: Array.from(new Set(peer.got.map((m) => m.type)))}};
        }}"""
    )
    # What is refused is not waited for, as its reason shows; what says nothing has two seconds.
    low, high = (0, 4000) if websocket == "refused" else (1900, 8000)
    assert low < result["after"] < high
    assert result["url"] == "http://localhost/tour/sse/demo"
    assert result["headers"]["Authorization"] == "Bearer s3cret"
    assert result["headers"]["Content-Type"] == "application/json"
    assert len(result["pulled"]) == 1
    assert result["pulled"][0]["pathname"].startswith("/tour/pictures/demo/1/")
    assert result["pulled"][0]["headers"]["Authorization"] == "Bearer s3cret"
    assert result["post"]["url"] == "http://localhost/tour/sse/demo/1/messages"
    assert result["post"]["headers"]["Authorization"] == "Bearer s3cret"
    assert result["words"].split() == ["By", *["post"] * 40]
    assert result["acks"] < 20, "acks wait for one another"
    assert result["pings"] == 0
    assert (result["reason"], result["road"]) == (f"websocket_{websocket}", "sse")
    assert {"hello", "ready", "painted", "ack", "pause", "pong"} <= set(result["kinds"])


def test_an_event_stream_that_breaks_goes_on_at_its_cursor(opened: Opened) -> None:
    page = _open(opened, "RTCPeerConnection = undefined; peer.sse = 'open'")
    result = page.evaluate(
        f"""async () => {{
          await until(() => peer.of('hello').length);
          const picture = await peer.picture('a');
          peer.bundle(peer.start(), peer.text('one '));
          await until(() => root.querySelector('.word'));
          peer.cut();
          peer.pictures.clear(); // not to be had at the first try
          peer.bundle(peer.text('two '), peer.event('asset', picture.asset), peer.mark(), peer.reveal('a'));
          await until(() => peer.pulled.length);
          peer.pictures.set(picture.asset.variants[0].sha256, picture.data);
          await until(() => root.querySelector('[data-key=a]')?.naturalWidth);
          return {{words: {_WORDS}, seen: {_SEEN}, cursor: peer.of('hello').at(-1).cursor, sockets: peer.sockets.length,
                  url: peer.posts.findLast(({{url}}) => !url.endsWith('messages')).url}};
        }}"""
    )
    assert (result["words"], result["seen"]) == ("one two", [0, 1, 2, 3, 4, 5])
    assert result["cursor"] == 1
    assert result["url"] == "http://localhost/tour/sse/demo/1"
    assert result["sockets"] == 1, "a road that was refused is not asked again"


def test_without_its_second_module_it_plays_as_one(opened: Opened) -> None:
    page = opened()
    page.route("**/product-tour-roads.js", lambda route: route.abort())
    result = page.evaluate(
        f"""async () => {{
          tour.play();
          await until(() => peer.of('hello').length);
          peer.bundle(peer.start(), peer.text('Alone.'));
          await peer.give('a');
          peer.bundle(peer.mark(), peer.reveal('a'));
          await until(() => root.querySelector('[data-key=a]')?.naturalWidth);
          const words = {_WORDS};
          peer.cut();
          await until(() => tour.state === 'error');
          return [words, {_WORDS}, root.querySelector('[part=message]').textContent, peer.deletes.length, tour.road];
        }}"""
    )
    assert result == ["Alone.", "Alone.", "The connection was lost.", 1, "webrtc"]


def test_servers_of_the_answer_serve_the_next_attempt(playing: Opened) -> None:
    page = playing()
    servers = page.evaluate(
        """async () => {
          const made = [], Real = RTCPeerConnection;
          window.RTCPeerConnection = function (settings) { made.push(settings); return new Real(); };
          peer.links = '<turn:turn.example:3478?transport=udp>; rel="ice-server"; username="1:v"; credential="c/d="; '
            + 'credential-type="password", <stun:stun.example>; rel="ice-server"';
          tour.iceServers = [{urls: 'stun:own.example'}];
          peer.cut();
          await until(() => peer.of('hello').length === 2);
          tour.iceTransportPolicy = 'relay';
          peer.cut();
          await until(() => peer.of('hello').length === 3);
          return made.filter((settings) => settings);
        }"""
    )
    own = {"urls": "stun:own.example"}
    turn = {"urls": "turn:turn.example:3478?transport=udp", "username": "1:v", "credential": "c/d="}
    assert servers[0] == {"iceServers": [own], "iceTransportPolicy": "all"}
    assert servers[-1] == {"iceServers": [own, turn, {"urls": "stun:stun.example"}], "iceTransportPolicy": "relay"}


def test_each_new_seat_is_asked_for_with_a_token_of_its_own(opened: Opened) -> None:
    page = opened()
    tokens = page.evaluate(
        """async () => {
          let number = 0;
          tour.beforeJoin = async () => {
            await frames2();
            tour.setAttribute('token', `t${number++}`);
          };
          for (const begin of [() => tour.play(), () => peer.cut(), () => tour.restart()]) {
            const hellos = peer.of('hello').length;
            begin();
            await until(() => peer.of('hello').length > hellos);
            if (peer.seq === 0) peer.bundle(peer.start());
            await until(() => tour.state === 'playing');
          }
          return peer.posts.map(({headers}) => headers.Authorization);
        }"""
    )
    assert tokens == ["Bearer t0", "Bearer t0", "Bearer t1"]


# ---- late, and after a gap


def _snapshot(extra: str = "") -> str:
    return f"""peer.event('snapshot', {{start: peer.start([{_KETTLE}]), text: 'Told so far. ', char: 0, base: 0,
        mark: 3, shown: [peer.reveal('a', {{product: 'k'}}), peer.reveal('b', {{preview: true, cue: 1}})],
        previews: [1], assets: [a.asset, b.asset], ended: '', continued: false {extra}}})"""


def test_a_late_viewer_sees_what_stands_there_and_then_what_comes(opened: Opened) -> None:
    page = _open(opened, "")
    result = page.evaluate(
        f"""async () => {{
          let detail;
          tour.addEventListener('tour-snapshot', (event) => detail = event.detail);
          await until(() => peer.of('hello').length);
          const a = await peer.picture('a', {{product: 'k'}}), b = await peer.picture('b');
          const c = await peer.picture('c'), rest = {{assets: [c.asset], continued: true, shown: [], text: ''}};
          peer.tok = 3;
          const parts = [{_snapshot()}, peer.event('snapshot', rest)];
          parts.forEach((part) => part.seq = 40);
          peer.seq = 41;
          peer.bundle(...parts);
          peer.send([a, b, c].flatMap((picture) => peer.parts(picture)));
          await until(() => root.querySelector('[data-key=a]')?.naturalWidth && peer.of('ready').length === 3);
          const shown = Array.from(root.querySelectorAll('[part=stage] img'), (i) => i.dataset.key);
          const titles = Array.from(root.querySelectorAll('[part=title]'), (t) => t.textContent);
          peer.bundle(peer.text('Live.'), peer.mark(), peer.reveal('c'));
          await until(() => root.querySelector('[data-key=c]')?.naturalWidth);
          await until(() => peer.of('painted').at(-1).seq === peer.seq - 1);
          return {{words: {_WORDS}, shown, titles, state: tour.state, at: detail.seq, seen: {_SEEN},
                  thumbs: root.querySelectorAll('[part=thumb]').length, judged: tour.stats.judged,
                  read: root.querySelector('.live').textContent, painted: peer.of('painted').map((m) => m.seq)}};
        }}"""
    )
    assert result["words"] == "Told so far. Live."
    assert result["shown"] == ["a", "b"]
    assert result["titles"] == ["Halo Kettle", "a picture of b"]
    assert (result["state"], result["at"], result["thumbs"]) == ("playing", 40, 3)
    assert result["seen"] == [40, 40, 41, 42, 43]
    assert result["judged"] == 0, "4 tokens with a mark every 3: none of it was told to this viewer in order"
    assert result["read"] == "", "who listens is not read what is over"
    assert result["painted"] == [40, 43]


def test_a_gap_rebuilds_the_stage(playing: Opened) -> None:
    page = playing()
    result = page.evaluate(
        f"""async () => {{
          const a = await peer.give('a'), b = await peer.give('b');
          peer.bundle(peer.text('Old words. '), peer.mark(), peer.reveal('a'));
          await until(() => root.querySelector('[data-key=a]'));
          tour.pause();
          peer.cut();
          peer.tok = 90;
          const parts = [peer.event('gap', {{after: 4}}), {_snapshot()}];
          parts.forEach((part) => part.seq = 200);
          peer.seq = 201;
          peer.journal = parts;
          peer.bundle(peer.text('Anew.'));
          await until(() => root.textContent.includes('Anew.'));
          const shown = Array.from(root.querySelectorAll('[part=stage] img'), (i) => i.dataset.key);
          return {{words: {_WORDS}, shown, state: tour.state, seen: {_SEEN}.slice(-3)}};
        }}"""
    )
    assert result["words"] == "Told so far. Anew."
    assert result["shown"] == ["a", "b"]
    assert (result["state"], result["seen"]) == ("paused", [200, 200, 201])


def test_a_snapshot_of_a_tour_that_is_over_is_its_end(opened: Opened) -> None:
    page = _open(opened, "")
    state = page.evaluate(
        f"""async () => {{
          await until(() => peer.of('hello').length);
          const a = await peer.picture('a'), b = await peer.picture('b');
          peer.bundle({_snapshot(", ended: 'complete'")});
          await until(() => peer.of('bye').length);
          return [tour.state, {_WORDS}];
        }}"""
    )
    assert state == ["ended", "Told so far. "]


# ---- parts


def test_missing_and_spoilt_parts_are_asked_for_by_their_ranges(playing: Opened) -> None:
    page = playing()
    result = page.evaluate(
        """async () => {
          const picture = await peer.picture('a', {pad: 9000}), parts = peer.parts(picture, 2000);
          const total = picture.data.length;
          const bent = parts[2].slice();
          bent[100] ^= 1;
          peer.bundle(peer.event('asset', picture.asset));
          peer.send([parts[0], bent, parts[3]]);
          await until(() => peer.of('resend').length);
          const [ask] = peer.of('resend');
          for (const [from, to] of ask.ranges) peer.send([peer.part('a', from, total, picture.data.slice(from, to))]);
          await until(() => peer.of('ready').length);
          return {ask, total, ready: peer.of('ready')[0].ok};
        }"""
    )
    assert result["ask"]["ranges"] == [[2000, 6000], [8000, result["total"]]]
    assert wire.decode_client(_json(result["ask"]))
    assert result["ready"]


def test_bytes_that_are_not_those_announced_are_asked_for_twice_and_never_painted(playing: Opened) -> None:
    page = playing()
    result = page.evaluate(
        """async () => {
          const picture = await peer.picture('a');
          picture.asset.variants[0].sha256 = '0'.repeat(64);
          peer.bundle(peer.event('asset', picture.asset), peer.text('w '), peer.mark(), peer.reveal('a'));
          for (let times = 0; times < 3; times++) {
            await until(() => peer.of('need').length === times);
            peer.send(peer.parts(picture));
          }
          await until(() => peer.of('ready').length && root.querySelector('[data-key=a]'));
          return {ready: peer.of('ready'), src: root.querySelector('[data-key=a]').getAttribute('src')};
        }"""
    )
    assert result["ready"] == [{"type": "ready", "key": "a", "ok": False, "reason": "wrong_sha256"}]
    assert result["src"] is None


def _json(message: Any) -> str:
    import json

    return json.dumps(message)
