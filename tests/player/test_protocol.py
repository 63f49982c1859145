"""The player's side of the wire: signalling, hello first, acks, pings, receipts, and whole bundles in one frame."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

from multimodal import wire
from multimodal.events import AnyEvent
from tests.player.conftest import Opened


def test_it_posts_its_offer_and_says_hello_first(opened: Opened) -> None:
    page = opened('token="s3cret"', viewport={"width": 800, "height": 600}, reduced_motion="reduce")
    result = page.evaluate(
        """async () => {
          const states = [tour.state];
          tour.play();
          states.push(tour.state);
          await until(() => peer.got.length >= 3);
          return {states, post: peer.posts[0], got: peer.got, label: peer.now.pc.remoteDescription.type};
        }"""
    )
    assert result["states"] == ["idle", "connecting"]
    post = result["post"]
    assert post["url"] == "http://localhost/tour/whep/demo"
    assert post["headers"] == {"Content-Type": "application/sdp", "Authorization": "Bearer s3cret"}
    assert "m=application" in post["body"]
    assert "a=candidate" not in post["body"], "the offer is posted without waiting for candidates"
    hello = wire.decode_client(_json(result["got"][0]))
    assert isinstance(hello, wire.Hello)
    assert hello.cursor == -1
    assert {"image/webp", "image/jpeg", "image/png"} <= set(hello.formats)
    assert hello.viewport == (800, 600)
    assert hello.reduced_motion


def test_everything_it_says_is_in_the_protocol(playing: Opened) -> None:
    page = playing()
    got = page.evaluate(
        """async () => {
          await peer.give('a', {pad: 40000});
          peer.bundle(peer.text('one '), peer.mark(), peer.reveal('a'));
          tour.pause();
          tour.play();
          await until(() => peer.of('ping').length && peer.of('painted').length > 1);
          peer.say({type: 'ping', id: 7, t_ms: 1.5});
          await until(() => peer.of('pong').length);
          peer.bundle(peer.event('end', {reason: 'complete', unused: []}));
          await until(() => peer.of('bye').length);
          return peer.got;
        }"""
    )
    messages = [wire.decode_client(_json(message)) for message in got]
    kinds = {type(message).__name__ for message in messages}
    assert kinds == {"Hello", "Ready", "Painted", "Ack", "Pause", "Resume", "Ping", "Pong", "Bye"}
    pong = next(message for message in messages if isinstance(message, wire.Pong))
    assert (pong.id, pong.t_ms) == (7, 1.5)


def test_it_reads_what_the_python_side_writes(playing: Opened) -> None:
    from multimodal.events import SyncMark, Text

    events: list[AnyEvent] = [
        Text(1, "s", 0, 1, 0.0, 1, 0, 1, "Grüß Gott."),
        SyncMark(1, "s", 0, 2, 0.0, 1, 1, 10, 0),
    ]
    bundles = list(wire.encode_bundle(events, limit_bytes=200))
    assert len(bundles) == 2
    part = wire.encode_part(wire.Part("schlüssel", 3, 10, b"ab"))
    page = playing()
    result = page.evaluate(
        """async ([bundles, part]) => {
          bundles.forEach((text) => peer.now.events.send(text));
          peer.now.images.send(new Uint8Array(part));
          peer.send([peer.part('schlüssel', 3, 10, new Uint8Array([97, 98]))]);
          await until(() => peer.of('ack').some((ack) => ack.picture_bytes === 4 && ack.seq === 2));
          await until(() => peer.of('painted').at(-1).seq === 2);
          const same = peer.part('schlüssel', 3, 10, new Uint8Array([97, 98])).every((byte, i) => byte === part[i]);
          return {same, text: root.querySelector('[part=text] div').textContent};
        }""",
        [bundles, list(part)],
    )
    assert result == {"same": True, "text": "Grüß Gott."}


def test_a_bundle_is_applied_whole_in_one_frame(playing: Opened) -> None:
    page = playing()
    result = page.evaluate(
        """async () => {
          await peer.give('a');
          let frame = 0;
          const count = () => { frame++; requestAnimationFrame(count); };
          requestAnimationFrame(count);
          const seen = [];
          new MutationObserver((list) => list.forEach((m) => m.addedNodes.forEach((node) => {
            if (node.className === 'g') seen.push([frame, 'word']);
            if (node.className === 'slot') seen.push([frame, node.querySelector('img').dataset.key]);
          }))).observe(root, {childList: true, subtree: true});
          const painted = peer.of('painted').length;
          const all = [peer.text('Here '), peer.text('it '), peer.text('is. '), peer.mark(), peer.reveal('a')];
          peer.some(...all.slice(0, 2));
          await frames2();
          await frames2();
          const early = seen.length;
          peer.bundle(...all.slice(2));
          await until(() => peer.of('painted').length > painted);
          await frames2();
          const receipts = peer.of('painted').slice(painted);
          return {early, frames: new Set(seen.map(([n]) => n)).size, kinds: seen.map(([, what]) => what), receipts,
                  last: all.at(-1).seq, log: tour.log.filter((e) => e.vantage === 'painted').at(-1), stats: tour.stats};
        }"""
    )
    assert result["early"] == 0, "a part that says `more` is held"
    assert result["frames"] == 1
    assert result["kinds"] == ["word", "word", "word", "a"]
    assert [receipt["seq"] for receipt in result["receipts"]] == [result["last"]]
    assert result["log"]["reveals"] == [{"key": "a", "preview": False, "decoded": True}]
    assert result["log"]["visible"]
    assert result["stats"] == {
        "reveals": 1,
        "missed": 0,
        "judged": 1,
        "sameFrame": 1,
        "tokenDriftMax": 0,
        "skewMs": {"last": 0, "max": 0},
    }


def test_several_bundles_of_one_frame_make_one_receipt(playing: Opened) -> None:
    page = playing()
    result = page.evaluate(
        """async () => {
          const before = peer.of('painted').length;
          // Both arrive while this frame is still being made.
          await new Promise((done) => requestAnimationFrame(() => {
            peer.bundle(peer.text('a '));
            peer.bundle(peer.text('b '));
            const until = performance.now() + 60;
            while (performance.now() < until);
            done();
          }));
          await until(() => peer.of('painted').at(-1).seq === 2);
          const log = tour.log.filter((e) => e.vantage === 'arrived').map((e) => e.event.seq);
          return {receipts: peer.of('painted').slice(before), log};
        }"""
    )
    assert 1 <= len(result["receipts"]) <= 2
    assert result["receipts"][-1]["seq"] == 2
    frames = [receipt["frame"] for receipt in result["receipts"]]
    assert frames == sorted(set(frames)), "one receipt per frame"
    assert result["log"] == [0, 1, 2]


def test_unknown_types_and_kinds_and_garbage_are_skipped(playing: Opened) -> None:
    page = playing()
    text = page.evaluate(
        """async () => {
          peer.say({type: 'tick'});
          peer.say({type: 'hologram', size: 3});
          for (const junk of ['', '{', 'null', '[]', '7', '"x"']) peer.now.events.send(junk);
          peer.now.events.send(new Uint8Array([1, 2, 3]));
          peer.now.images.send('text on the pictures channel');
          for (const n of [0, 1, 15, 16, 40]) peer.now.images.send(new Uint8Array(n).fill(77));
          peer.bundle(peer.event('smell', {of: 'coffee'}), peer.text('still '), peer.event('stage', {}));
          const stray = peer.event('reveal', {cue: 0, key: 'nobody', product: '', anchor: 1, mark: 1});
          peer.bundle(stray, peer.text('here'));
          await until(() => root.querySelector('[data-tok="1"]'));
          return [root.querySelector('[part=text] div').textContent, tour.state];
        }"""
    )
    assert text == ["still here", "playing"]


def test_another_major_version_is_refused(playing: Opened) -> None:
    page = playing()
    page.evaluate(
        """async () => {
          tour.addEventListener('tour-error', (event) => window.failure = event.detail);
          peer.say({type: 'bundle', v: 2, events: [], more: false});
          await until(() => window.failure);
        }"""
    )
    assert page.evaluate("[tour.state, failure.code]") == ["error", "version"]


def test_a_replayed_event_is_not_shown_twice(playing: Opened) -> None:
    page = playing()
    text = page.evaluate(
        """async () => {
          const one = peer.text('once ');
          peer.bundle(one);
          peer.bundle(one, peer.text('more'));
          await until(() => root.querySelector('[data-tok="1"]'));
          return root.querySelector('[part=text] div').textContent;
        }"""
    )
    assert text == "once more"


def test_acks_are_cumulative_and_prompt(playing: Opened) -> None:
    page = playing()
    acks = page.evaluate(
        """async () => {
          const picture = await peer.picture('big', {pad: 100000});
          peer.bundle(peer.event('asset', picture.asset));
          peer.send(peer.parts(picture, 8192));
          const last = () => peer.of('ack').at(-1);
          await until(() => last().picture_bytes === picture.data.length && last().seq === 1);
          return {acks: peer.of('ack'), total: picture.data.length};
        }"""
    )
    steps = [ack["picture_bytes"] for ack in acks["acks"]]
    assert steps == sorted(steps)
    assert max(after - before for before, after in pairwise(steps)) <= 16384 + 8192
    assert acks["acks"][-1]["seq"] == 1


@pytest.mark.parametrize("hide_first", [True, False])
def test_a_hidden_page_is_drained_without_frames(playing: Opened, hide_first: bool) -> None:
    page = playing()
    result = page.evaluate(
        """async (hideFirst) => {
          const hide = (hidden) => {
            Object.defineProperty(document, 'hidden', {value: hidden, configurable: true});
            document.dispatchEvent(new Event('visibilitychange'));
          };
          await peer.give('a');
          const painted = peer.of('painted').length;
          window.requestAnimationFrame = () => 1; // what a hidden page sees: frames that never come
          if (hideFirst) hide(true);
          peer.bundle(peer.text('unseen'), peer.mark(), peer.reveal('a'));
          if (!hideFirst) {
            await until(() => tour.log.at(-1).event?.kind === 'reveal');
            hide(true);
          }
          await until(() => peer.of('painted').length > painted);
          return {receipt: peer.of('painted').at(-1), key: root.querySelector('[data-current]').dataset.key,
                  text: root.querySelector('[part=text] div').textContent, judged: tour.stats.judged};
        }""",
        hide_first,
    )
    assert result["receipt"]["visible"] is False
    assert result["key"] == "a"
    assert result["text"] == "unseen"
    assert result["judged"] == 0


def test_the_log_is_bounded(playing: Opened) -> None:
    page = playing()
    length = page.evaluate(
        """async () => {
          for (let i = 0; i < 44; i++) peer.bundle(...Array.from({length: 500}, () => peer.mark()));
          await until(() => tour.log.at(-1).seq === 22000);
          return tour.log.length;
        }"""
    )
    assert 18_000 < length <= 20_000


def _json(message: Any) -> str:
    return json.dumps(message)
