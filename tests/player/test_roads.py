"""The other roads, against a peer in the page: when they are taken, and that nothing is lost on the way."""

from __future__ import annotations

import json

import pytest

from multimodal import wire
from tests.player.conftest import Opened
from tests.player.tour_page import KETTLE, SEEN, WORDS, begun


@pytest.mark.parametrize("websocket", ["open", "untaken"])
def test_a_websocket_joins_in_after_four_seconds(opened: Opened, websocket: str) -> None:
    set_up = f"peer.deaf = true; peer.websocket = '{websocket}'; window.begun = performance.now()"
    page = begun(opened, set_up, 'token="s3cret"')
    result = page.evaluate(
        f"""async () => {{
          await until(() => peer.of('hello').length);
          const after = performance.now() - begun, before = peer.sockets.length;
          peer.bundle(peer.start([{KETTLE}]), peer.text('By socket '));
          await peer.give('a', {{pad: 20000}});
          peer.bundle(peer.mark(), peer.reveal('a'));
          await until(() => root.querySelector('[data-key=a]')?.naturalWidth);
          await until(() => peer.of('ack').at(-1).picture_bytes > 20000);
          return {{after, before, sockets: peer.sockets, hello: peer.of('hello')[0], words: {WORDS}, roads,
                  road: tour.road}};
        }}"""
    )
    assert 3500 < result["after"] < 9000, "without it the offer is waited for, which takes 10 s"
    at_its_seat, anew = "ws://localhost/tour/ws/demo/1", "ws://localhost/tour/ws/demo"
    # The seat that the offer has opened; a server may have given that up, since nobody took it.
    assert result["sockets"] == ([at_its_seat] if websocket == "open" else [at_its_seat, anew])
    assert result["hello"]["join_token"] == "s3cret"
    assert wire.decode_client(json.dumps(result["hello"]))
    assert result["words"] == "By socket"
    assert [(road["road"], road["reason"]) for road in result["roads"]] == [("websocket", "ice_timeout")]
    assert result["roads"][0]["candidates"] == ["host"]
    assert result["road"] == "websocket"


def test_no_webrtc_at_all_is_no_reason_to_wait(opened: Opened) -> None:
    page = begun(opened, "RTCPeerConnection = undefined; peer.websocket = 'open'; window.begun = performance.now()")
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
          return {{after, sockets: peer.sockets, words: {WORDS}, seen: {SEEN}, why}};
        }}"""
    )
    assert result["after"] < 4000, "after so long a WebSocket would join in anyway"
    assert result["sockets"] == ["ws://localhost/tour/ws/demo", "ws://localhost/tour/ws/demo/1"]
    assert (result["words"], result["seen"]) == ("one two", [0, 1, 2])
    assert result["why"] == ["ice_failed", "ice_failed"]


@pytest.mark.parametrize("websocket", ["refused", "silent"])
def test_server_sent_events_are_the_last_road(opened: Opened, websocket: str) -> None:
    set_up = f"RTCPeerConnection = undefined; peer.websocket = '{websocket}'; peer.sse = 'open'"
    page = begun(opened, f"{set_up}; window.begun = performance.now()", 'token="s3cret"')
    result = page.evaluate(
        f"""async () => {{
          await until(() => peer.of('hello').length);
          const after = performance.now() - begun, opening = peer.posts.at(-1);
          peer.bundle(peer.start([{KETTLE}]), peer.text('By '));
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
          return {{after, url: opening.url, headers: opening.headers, pulled: peer.pulled, words: {WORDS},
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
    page = begun(opened, "RTCPeerConnection = undefined; peer.sse = 'open'")
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
          return {{words: {WORDS}, seen: {SEEN}, cursor: peer.of('hello').at(-1).cursor, sockets: peer.sockets.length,
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
          const words = {WORDS};
          peer.cut();
          await until(() => tour.state === 'error');
          return [words, {WORDS}, root.querySelector('[part=message]').textContent, peer.deletes.length, tour.road];
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
