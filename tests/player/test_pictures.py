"""Pictures: parts in any order, checked, decoded before they show, in a place that was kept for them."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from multimodal.pipes.intake import ImageSettings
from multimodal.pipes.video import WEBM, make_clip
from tests.pipes.videos import gradient, write_video
from tests.player.conftest import Opened

_SHOWN = "Array.from(root.querySelectorAll('img[part=picture]'), (i) => i.dataset.key)"


def test_parts_come_in_any_order_twice_and_over_each_other(playing: Opened) -> None:
    page = playing()
    result = page.evaluate(
        """async () => {
          const early = await peer.picture('early', {pad: 9000}), parts = peer.parts(early, 1000);
          const across = peer.part('early', 500, early.data.length, early.data.slice(500, 4321));
          peer.send([...parts.slice(1).reverse(), parts[3], across]);
          await until(() => peer.of('ack').length && tour.state === 'playing');
          await frames2();
          const before = peer.of('ready').length;
          peer.send([parts[0], parts[0], ...parts.slice(2, 4)]);
          await frames2();
          const described = peer.event('asset', {...early.asset, variants: []});
          peer.bundle(described);
          await frames2();
          const unready = peer.of('ready').length;
          peer.bundle(peer.event('asset', early.asset));
          await until(() => peer.of('ready').length);
          return {before, unready, ready: peer.of('ready')};
        }"""
    )
    assert result["before"] == 0
    assert result["unready"] == 0, "its bytes cannot be checked before its variants are known"
    assert result["ready"] == [{"type": "ready", "key": "early", "ok": True, "reason": ""}]


def test_a_damaged_part_is_dropped_and_can_come_again(playing: Opened) -> None:
    page = playing()
    ready = page.evaluate(
        """async () => {
          const picture = await peer.picture('a', {pad: 5000}), parts = peer.parts(picture, 2000);
          const bent = parts[1].slice();
          bent[100] ^= 1;
          peer.bundle(peer.event('asset', picture.asset));
          peer.send([parts[0], bent, ...parts.slice(2)]);
          await new Promise((done) => setTimeout(done, 150));
          const early = peer.of('ready').length;
          peer.send([parts[1]]);
          await until(() => peer.of('ready').length);
          return [early, peer.of('ready')[0].ok];
        }"""
    )
    assert ready == [0, True]


def test_an_undecodable_picture_is_reported_and_its_alt_text_stands_in(playing: Opened) -> None:
    page = playing()
    result = page.evaluate(
        """async () => {
          const about = {width_px: 40, height_px: 30, alt: 'a kettle'};
          const junk = await peer.wrap('junk', new Uint8Array(3000).fill(9), about);
          peer.bundle(peer.event('asset', junk.asset));
          peer.send(peer.parts(junk));
          await until(() => peer.of('ready').length);
          peer.bundle(peer.text('See '), peer.mark(), peer.reveal('junk', {preview: true}),
                      peer.event('swap', {cue: 0, key: 'junk', ok: false, reason: 'undecodable'}));
          await until(() => root.querySelector('[data-key=junk]'));
          const image = root.querySelector('[data-key=junk]'), box = image.getBoundingClientRect();
          return {ready: peer.of('ready')[0], alt: image.alt, src: image.getAttribute('src'),
                  ratio: box.width / box.height,
                  made: peer.made.length, revoked: peer.revoked.length};
        }"""
    )
    assert result["ready"] == {"type": "ready", "key": "junk", "ok": False, "reason": "undecodable"}
    assert result["alt"] == "a kettle"
    assert result["src"] is None
    assert abs(result["ratio"] - 4 / 3) < 0.02, "the place keeps the picture's shape"
    assert result["made"] == result["revoked"] == 1


def test_a_preview_stands_until_its_swap(playing: Opened) -> None:
    page = playing()
    result = page.evaluate(
        """async () => {
          const tiny = document.createElement('canvas'), decode = HTMLImageElement.prototype.decode;
          tiny.width = tiny.height = 16;
          const picture = await peer.picture('a', {placeholder: tiny.toDataURL('image/webp')});
          let ready = false;
          HTMLImageElement.prototype.decode = function () {
            return decode.call(this).finally(() => ready = true);
          };
          peer.bundle(peer.event('asset', {...picture.asset, variants: []}));
          await until(() => ready);
          peer.bundle(peer.text('Look '), peer.mark(), peer.reveal('a', {preview: true}));
          await until(() => root.querySelector('[data-current]'));
          const image = () => root.querySelector('img[data-key=a]');
          const has = (name) => image().hasAttribute(name);
          const at = () => ({src: image().src.slice(0, 10), preview: has('data-preview'), alt: image().alt,
                             current: has('data-current'), blur: getComputedStyle(image()).filter !== 'none'});
          const place = () => JSON.stringify(image().parentNode.getBoundingClientRect());
          const first = at(), box = place();
          const receipt = tour.log.filter((e) => e.vantage === 'painted').at(-1).reveals;
          peer.bundle(peer.event('asset', picture.asset));
          peer.send(peer.parts(picture));
          await until(() => peer.of('ready').length);
          await frames2();
          const unswapped = at(), early = root.querySelectorAll('[part=thumb] canvas').length;
          peer.bundle(peer.event('swap', {cue: 0, key: 'a', ok: true, reason: ''}));
          await until(() => !image().hasAttribute('data-preview'));
          return {first, unswapped, last: at(), receipt, still: box === place(), early,
                  thumbs: root.querySelectorAll('[part=thumb] canvas').length};
        }"""
    )
    preview = {"src": "data:image", "preview": True, "alt": "a picture of a", "current": True, "blur": True}
    assert result["first"] == preview
    assert result["unswapped"] == preview
    assert result["receipt"] == [{"key": "a", "preview": True, "decoded": True}]
    assert result["last"] == {**preview, "src": "blob:http:", "preview": False, "blur": False}
    assert result["still"]
    assert (result["early"], result["thumbs"]) == (0, 1)


def test_a_preview_that_is_described_and_revealed_at_once_still_shows(playing: Opened) -> None:
    page = playing()
    page.evaluate(
        """async () => {
          const tiny = document.createElement('canvas');
          tiny.width = tiny.height = 16;
          const picture = await peer.picture('a', {placeholder: tiny.toDataURL('image/webp')});
          peer.bundle(peer.event('asset', {...picture.asset, variants: []}), peer.text('Look '), peer.mark(),
                      peer.reveal('a', {preview: true}));
          await until(() => root.querySelector('img[data-key=a][data-preview][data-current][src^="data:"]'));
        }"""
    )


def test_a_preview_reveal_waits_for_its_swap_though_the_picture_is_here(playing: Opened) -> None:
    page = playing()
    result = page.evaluate(
        """async () => {
          await peer.give('a');
          peer.bundle(peer.text('Look '), peer.mark(), peer.reveal('a', {preview: true}));
          await until(() => root.querySelector('[data-current]'));
          const before = root.querySelector('[data-key=a]').getAttribute('src');
          peer.bundle(peer.event('swap', {cue: 0, key: 'a', ok: true, reason: ''}));
          await until(() => root.querySelector('[data-key=a]').src.startsWith('blob:'));
          return [before, tour.log.findLast((e) => e.reveals?.length).reveals];
        }"""
    )
    assert result == [None, [{"key": "a", "preview": True, "decoded": False}]]


def test_a_reveal_whose_bytes_are_late_shows_the_picture_by_itself(playing: Opened) -> None:
    page = playing()
    result = page.evaluate(
        """async () => {
          const picture = await peer.picture('a');
          peer.bundle(peer.event('asset', picture.asset), peer.text('Look '), peer.mark(), peer.reveal('a'));
          await until(() => root.querySelector('[data-current]'));
          const first = root.querySelector('[data-key=a]').getAttribute('src');
          const receipts = () => tour.log.filter((e) => e.vantage === 'painted').length, before = receipts();
          peer.send(peer.parts(picture));
          await until(() => root.querySelector('[data-key=a]').src.startsWith('blob:'));
          return {first, decoded: tour.log.filter((e) => e.vantage === 'painted').at(-1).reveals[0].decoded,
                  more: receipts() - before};
        }"""
    )
    assert result == {"first": None, "decoded": False, "more": 0}


def test_cues_of_one_mark_stand_side_by_side_and_the_next_mark_clears(playing: Opened) -> None:
    page = playing()
    result = page.evaluate(
        f"""async () => {{
          for (const key of ['a', 'b', 'c']) await peer.give(key, {{product: key === 'c' ? 'k' : ''}});
          peer.bundle(peer.text('one '), peer.mark(), peer.reveal('a'), peer.reveal('b'));
          await until(() => root.querySelector('[data-key=b]'));
          const both = {_SHOWN};
          const [left, right] = Array.from(root.querySelectorAll('.slot'), (s) => s.getBoundingClientRect());
          peer.bundle(peer.text('two '), peer.mark(), peer.reveal('c', {{product: 'k'}}));
          await until(() => root.querySelector('[data-key=c]'));
          const one = {_SHOWN};
          return {{both, apart: left.right <= right.left && left.width > 20, one,
                  title: root.querySelector('[part=title]').textContent,
                  price: root.querySelector('[part=price]').textContent,
                  thumbs: Array.from(root.querySelectorAll('[part=thumb]'), (t) => [t.ariaLabel, t.ariaCurrent])}};
        }}"""
    )
    assert result["both"] == ["a", "b"]
    assert result["apart"]
    assert result["one"] == ["c"]
    assert (result["title"], result["price"]) == ("Halo Kettle", "€89.00")
    assert result["thumbs"] == [["a picture of a", None], ["a picture of b", None], ["Halo Kettle", "true"]]


def test_an_earlier_picture_comes_back_by_its_thumbnail(playing: Opened) -> None:
    page = playing()
    shown = page.evaluate(
        f"""async () => {{
          await peer.give('a');
          await peer.give('b');
          for (const key of ['a', 'b']) {{
            peer.bundle(peer.text('w '), peer.mark(), peer.reveal(key));
            await until(() => root.querySelector(`[data-key=${{key}}]`));
          }}
          root.querySelector('[part=thumb]').click();
          return {_SHOWN};
        }}"""
    )
    assert shown == ["a"]


def test_nothing_shifts_and_every_blob_url_is_let_go(playing: Opened) -> None:
    page = playing(viewport={"width": 390, "height": 844})
    result = page.evaluate(
        """async () => {
          await shifted(); // what the page itself did when the element woke up in it
          for (let i = 0; i < 12; i++) {
            await peer.give(`p${i}`, {width: 60 + 10 * (i % 3), height: 60, color: `hsl(${i * 30} 60% 50%)`});
            for (let w = 0; w < 6; w++) peer.bundle(peer.text('some words '), peer.mark());
            peer.bundle(peer.text('and a picture. '), peer.mark(), peer.reveal(`p${i}`));
            await frames2();
          }
          await until(() => root.querySelector('[data-key=p11]'));
          return {shift: await shifted(), made: peer.made.length, revoked: peer.revoked.length,
                  natural: root.querySelector('[data-key=p11]').naturalWidth};
        }"""
    )
    assert result == {"shift": 0, "made": 12, "revoked": 12, "natural": 80}


def test_unfinished_pictures_are_bounded_and_the_oldest_goes_first(playing: Opened) -> None:
    page = playing()
    result = page.evaluate(
        """async () => {
          const ready = () => peer.of('ready').map((message) => message.key);
          const old = await peer.picture('old', {pad: 9000}), parts = peer.parts(old, 2000);
          const some = new Uint8Array(1000);
          peer.bundle(peer.event('asset', old.asset));
          peer.send([...parts.slice(1), peer.part('monster', 0, 2 ** 32 - 1, some)]);
          for (let i = 0; i < 5; i++) peer.send([peer.part(`half${i}`, 0, 15 << 20, some)]);
          peer.send([parts[0]]);
          await peer.give('new');
          const first = ready();
          peer.send(parts);
          await until(() => ready().includes('old'));
          return {first, last: ready()};
        }"""
    )
    assert result == {"first": ["new"], "last": ["new", "old"]}, "what was given up can come again"


_SECOND_TOUR = """async () => {
  await peer.give('a', {color: '#3c3'});
  const stored = await caches.open('product-tour');
  await until(async () => (await stored.keys()).length);
  // A hello waits 300 ms for what is kept: here as long as this machine takes.
  const soon = window.setTimeout;
  window.setTimeout = (act, ms, ...rest) => soon(act, ms === 300 ? 30000 : ms, ...rest);
  tour.restart();
  await until(() => peer.of('hello').length === 2);
  BETWEEN
  const again = await peer.picture('b', {color: '#3c3'}), before = peer.of('ready').length;
  peer.bundle(peer.start(), peer.event('asset', again.asset));
  await until(() => peer.of('ready').length > before || peer.of('need').length);
  const needed = peer.of('need').map(({key}) => key);
  if (needed.length) peer.send(peer.parts(again));
  await until(() => peer.of('ready').length > before);
  peer.bundle(peer.text('w '), peer.mark(), peer.reveal('b'));
  await until(() => root.querySelector('[data-key=b]')?.naturalWidth);
  const {sha256} = again.asset.variants[0];
  return {have: peer.of('hello')[1].have, sha256, ready: peer.of('ready').at(-1), needed};
}"""


def test_a_picture_of_an_earlier_tour_needs_no_bytes(playing: Opened) -> None:
    result = playing().evaluate(_SECOND_TOUR.replace("BETWEEN", ""))
    assert result["have"] == [result["sha256"][:16]]
    assert result["ready"] == {"type": "ready", "key": "b", "ok": True, "reason": ""}
    assert result["needed"] == []


@pytest.mark.parametrize(
    "between",
    [
        "for (const kept of await stored.keys()) await stored.delete(kept);",
        "for (const kept of await stored.keys()) await stored.put(kept, new Response('spoilt'));",
    ],
    ids=["thrown away", "spoilt"],
)
def test_a_kept_picture_that_is_gone_or_spoilt_is_asked_for(playing: Opened, between: str) -> None:
    result = playing().evaluate(_SECOND_TOUR.replace("BETWEEN", between))
    assert result["have"] == [result["sha256"][:16]]
    assert result["needed"] == ["b"]
    assert result["ready"]["ok"]


def test_only_the_newest_pictures_are_kept(playing: Opened) -> None:
    kept = playing().evaluate(
        """async () => {
          const stored = await caches.open('product-tour');
          const name = (n) => `https://picture/${String(n).padStart(64, '0')}`;
          for (let n = 0; n < 260; n++) await stored.put(name(n), new Response('x'));
          const {asset} = await peer.give('a');
          const last = `https://picture/${asset.variants[0].sha256}`;
          let urls = [];
          await until(async () => {
            urls = (await stored.keys()).map(({url}) => url);
            return urls.at(-1) === last && urls.length <= 256;
          });
          return [urls.length, urls[0] === name(5)];
        }"""
    )
    assert kept == [256, True]


def test_a_clip_reveals_like_a_picture_and_plays_without_sound(playing: Opened, tmp_path: Path) -> None:
    video = write_video(tmp_path / "a.mp4", [gradient(n, 20) for n in range(20)])
    clip = make_clip(video, ImageSettings(), WEBM, 96)
    page = playing()
    result = page.evaluate(
        """async ([base64, width_px, height_px]) => {
          const data = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
          const picture = await peer.wrap('turn', data, {width_px, height_px, alt: 'all around the kettle'});
          picture.asset.variants[0].media_type = 'video/webm';
          peer.bundle(peer.event('asset', picture.asset));
          peer.send(peer.parts(picture));
          await until(() => peer.of('ready').length);
          peer.bundle(peer.text('look '), peer.mark(), peer.reveal('turn'));
          await until(() => root.querySelector('video[data-key=turn]'));
          const video = root.querySelector('video');
          const first = video.currentTime;
          await until(() => video.currentTime !== first);
          const box = video.getBoundingClientRect(), thumb = root.querySelector('[part=thumb] canvas');
          const {muted, loop, paused, playsInline} = video;
          return {
            hello: peer.of('hello')[0].formats, ready: peer.of('ready'), muted, loop, paused, playsInline,
            label: video.getAttribute('aria-label'), role: video.getAttribute('role'), part: video.getAttribute('part'),
            ratio: box.width / box.height, thumb: thumb.getContext('2d').getImageData(20, 20, 1, 1).data[1],
            logged: tour.log.findLast((line) => line.reveals?.length).reveals[0],
          };
        }""",
        [base64.b64encode(clip.data).decode(), clip.width_px, clip.height_px],
    )
    assert "video/webm" in result["hello"]
    assert result["ready"] == [{"type": "ready", "key": "turn", "ok": True, "reason": ""}]
    assert (result["muted"], result["loop"], result["paused"], result["playsInline"]) == (True, True, False, True)
    assert (result["label"], result["role"], result["part"]) == ("all around the kettle", "img", "picture")
    assert abs(result["ratio"] - 1.5) < 0.02
    assert result["thumb"] > 120, "the strip shows its first frame"
    assert result["logged"] == {"key": "turn", "preview": False, "decoded": True}


def test_a_clip_that_cannot_be_played_is_said(playing: Opened) -> None:
    ready = playing().evaluate(
        """async () => {
          const picture = await peer.wrap('turn', new Uint8Array(500).fill(7), {width_px: 4, height_px: 3});
          picture.asset.variants[0].media_type = 'video/webm';
          peer.bundle(peer.event('asset', picture.asset));
          peer.send(peer.parts(picture));
          await until(() => peer.of('ready').length);
          return peer.of('ready')[0];
        }"""
    )
    assert ready == {"type": "ready", "key": "turn", "ok": False, "reason": "undecodable"}
