"""Late viewers, gaps and missing parts, against a peer in the page."""

from __future__ import annotations

import json

from multimodal import wire
from tests.player.conftest import Opened
from tests.player.tour_page import KETTLE, SEEN, WORDS, begun


def _snapshot(extra: str = "") -> str:
    return f"""peer.event('snapshot', {{start: peer.start([{KETTLE}]), text: 'Told so far. ', char: 0, base: 0,
        mark: 3, shown: [peer.reveal('a', {{product: 'k'}}), peer.reveal('b', {{preview: true, cue: 1}})],
        previews: [1], assets: [a.asset, b.asset], ended: '', continued: false {extra}}})"""


def test_a_late_viewer_sees_what_stands_there_and_then_what_comes(opened: Opened) -> None:
    page = begun(opened, "")
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
          return {{words: {WORDS}, shown, titles, state: tour.state, at: detail.seq, seen: {SEEN},
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
          return {{words: {WORDS}, shown, state: tour.state, seen: {SEEN}.slice(-3)}};
        }}"""
    )
    assert result["words"] == "Told so far. Anew."
    assert result["shown"] == ["a", "b"]
    assert (result["state"], result["seen"]) == ("paused", [200, 200, 201])


def test_a_snapshot_of_a_tour_that_is_over_is_its_end(opened: Opened) -> None:
    page = begun(opened, "")
    state = page.evaluate(
        f"""async () => {{
          await until(() => peer.of('hello').length);
          const a = await peer.picture('a'), b = await peer.picture('b');
          peer.bundle({_snapshot(", ended: 'complete'")});
          await until(() => peer.of('bye').length);
          return [tour.state, {WORDS}];
        }}"""
    )
    assert state == ["ended", "Told so far. "]


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
    assert wire.decode_client(json.dumps(result["ask"]))
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
