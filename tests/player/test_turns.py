"""Interruptions (R9): what the player says, and that nothing of an older epoch comes onto the page any more."""

from __future__ import annotations

import pytest

from tests.player.conftest import Opened

_TELL = """async () => {
  await peer.give('old', {product: 'k'});
  peer.bundle(peer.text('About the ket'), peer.mark(), peer.reveal('old', {product: 'k'}));
  await until(() => root.querySelector('[data-key=old]'));
  window.heard = [];
  tour.addEventListener('tour-interrupt', ({detail}) => heard.push(detail.epoch));
  window.words = () => Array.from(root.querySelectorAll('[part=text] p'), (p) => p.textContent);
  window.keys = () => Array.from(root.querySelectorAll('[part=stage] img[part=picture]'), (i) => i.dataset.key);
  window.caption = () => root.querySelector('[part=caption]').textContent;
  window.applied = (event) => until(() => peer.of('painted').at(-1).seq >= event.seq);
  window.arrived = (event) => until(() => peer.of('ack').at(-1).seq >= event.seq);
}"""


def test_a_stop_clears_the_stage_and_the_answer_begins_anew(playing: Opened) -> None:
    page = playing()
    page.evaluate(_TELL)
    result = page.evaluate(
        """async () => {
          const spoken = root.querySelector('[aria-live]');
          tour.interrupt();
          await until(() => peer.of('interrupt').length);
          const late = peer.text('tle that'), painted = peer.of('painted').length;
          peer.bundle(late, peer.mark(), peer.reveal('old'));
          await arrived(late);
          await frames2();
          const unapplied = [words(), keys(), peer.of('painted').length - painted];
          const stop = peer.interrupt();
          peer.bundle(stop);
          await applied(stop);
          await told();
          const current = root.querySelectorAll('[part=thumb][aria-current]').length;
          const empty = [keys(), caption(), current, spoken.textContent];
          await peer.give('new');
          peer.bundle(peer.text('Yes. '), peer.mark(), peer.reveal('new'));
          await until(() => root.querySelector('[data-key=new]'));
          return {said: peer.of('interrupt'), unapplied, empty, words: words(), keys: keys(), heard,
                  spoken: spoken.textContent, missed: tour.stats.missed, state: tour.state};
        }"""
    )
    assert result == {
        "said": [{"type": "interrupt", "epoch": 0}],
        "unapplied": [["About the ket"], ["old"], 0],
        "empty": [[], "", 0, ""],
        "words": ["About the ket", "Yes."],
        "keys": ["new"],
        "heard": [1],
        "spoken": "Yes.",
        "missed": 0,
        "state": "playing",
    }


def test_what_waits_for_its_frame_is_dropped_too(playing: Opened) -> None:
    page = playing()
    page.evaluate(_TELL)
    result = page.evaluate(
        """async () => {
          const real = window.requestAnimationFrame, held = [];
          window.requestAnimationFrame = (callback) => held.push(callback);
          const late = peer.text('tle');
          peer.bundle(late);
          await arrived(late);
          tour.interrupt();
          window.requestAnimationFrame = real;
          held.forEach((callback) => callback(performance.now()));
          return words();
        }"""
    )
    assert result == ["About the ket"]


def test_an_interruption_by_the_shop_is_told_whole(playing: Opened) -> None:
    page = playing()
    page.evaluate(_TELL)
    result = page.evaluate(
        """async () => {
          const tail = peer.text('tle. ');
          const gone = peer.event('missed', {cue: 1, key: 'x', anchor: 9, reason: 'interrupted'});
          const stop = peer.interrupt(), answer = peer.text('We close soon.');
          peer.bundle(tail, gone, stop, answer);
          await applied(answer);
          await told();
          return {words: words(), keys: keys(), heard, missed: tour.stats.missed,
                  live: Array.from(root.querySelectorAll('[aria-live] p'), (p) => p.textContent)};
        }"""
    )
    assert result == {
        "words": ["About the kettle. ", "We close soon."],
        "keys": [],
        "heard": [1],
        "missed": 0,
        "live": ["About the kettle."],
    }


def test_a_pause_ends_with_the_interruption(playing: Opened) -> None:
    page = playing()
    page.evaluate(_TELL)
    result = page.evaluate(
        """async () => {
          tour.pause();
          tour.ask('Is it loud?');
          await until(() => peer.of('ask').length);
          const before = tour.state, stop = peer.interrupt();
          peer.bundle(stop);
          await until(() => peer.of('resume').length);
          return {before, after: tour.state, asked: peer.of('ask'),
                  order: peer.got.map((m) => m.type).filter((type) => ['pause', 'ask', 'resume'].includes(type))};
        }"""
    )
    assert result == {
        "before": "paused",
        "after": "playing",
        "asked": [{"type": "ask", "epoch": 0, "text": "Is it loud?"}],
        "order": ["pause", "ask", "resume"],
    }


def test_a_pause_outlives_a_server_that_was_killed(playing: Opened) -> None:
    """Its epoch rises because another server goes on with the same turn, and not because anybody stopped it."""
    page = playing()
    page.evaluate(_TELL)
    result = page.evaluate(
        """async () => {
          tour.pause();
          const stop = {...peer.interrupt(), resumed: true};
          peer.bundle(stop);
          await applied(stop);
          await frames2();
          return {state: tour.state, resumed: peer.of('resume').length};
        }"""
    )
    assert result == {"state": "paused", "resumed": 0}


def test_a_refused_turn_goes_on_from_where_it_stands(playing: Opened) -> None:
    """The page has left the turn and may not: the server's snapshot takes it back, and the next words are shown."""
    page = playing()
    page.evaluate(_TELL)
    result = page.evaluate(
        """async () => {
          tour.ask('May I?');
          await until(() => peer.of('ask').length);
          const {epoch} = peer.of('ask')[0], seq = peer.seq - 1;
          peer.bundle({...peer.event('snapshot', {text: 'About the kettle, ', char: 0, base: 0, mark: 3, start: {},
            assets: [], shown: [], previews: [], ended: '', continued: false}), epoch, seq});
          peer.seq = seq + 1;
          const next = peer.text('which is green.');
          peer.bundle(next);
          await applied(next);
          return {epoch, words: words(), state: tour.state};
        }"""
    )
    assert result["epoch"] == 0
    assert "".join(result["words"]).endswith("kettle, which is green.")
    assert result["state"] == "playing"


def test_a_second_question_does_not_wait_for_the_first_answer(playing: Opened) -> None:
    page = playing()
    page.evaluate(_TELL)
    result = page.evaluate(
        """async () => {
          tour.ask('one?');
          tour.ask('two?');
          await until(() => peer.of('ask').length === 2);
          const first = peer.interrupt(), unwanted = peer.text('Answer one.'), second = peer.interrupt();
          peer.bundle(first, {...unwanted, epoch: 1});
          peer.bundle(second);
          const answer = peer.text('Answer two.');
          peer.bundle(answer);
          await applied(answer);
          await told();
          return {epochs: peer.of('ask').map((message) => message.epoch), words: words(), heard};
        }"""
    )
    assert result == {"epochs": [0, 1], "words": ["About the ket", "Answer two."], "heard": [2]}


@pytest.mark.parametrize("kind", ["no bytes", "preview"])
def test_an_old_picture_that_is_decoded_late_does_not_come_back(playing: Opened, kind: str) -> None:
    page = playing()
    page.evaluate(_TELL)
    result = page.evaluate(
        """async (kind) => {
          const picture = await peer.picture('late');
          const preview = kind === 'preview';
          peer.bundle(peer.event('asset', picture.asset));
          peer.bundle(peer.text('tle '), peer.mark(), peer.reveal('late', {preview}));
          await until(() => root.querySelector('[data-key=late]'));
          const {epoch} = peer, stop = peer.interrupt();
          peer.bundle(stop);
          await applied(stop);
          peer.send(peer.parts(picture));
          await until(() => peer.of('ready').some((message) => message.key === 'late'));
          if (preview) peer.bundle({...peer.event('swap', {cue: 0, key: 'late', ok: true, reason: ''}), epoch});
          await frames2();
          await frames2();
          const gone = [keys(), caption()];
          const words = [peer.text('Again '), peer.mark()], again = peer.reveal('late');
          peer.bundle(...words, again);
          await applied(again);
          return {gone, again: keys(), whole: root.querySelector('[data-key=late]').src.startsWith('blob:')};
        }""",
        kind,
    )
    assert result == {"gone": [[], ""], "again": ["late"], "whole": True}


def test_the_description_of_a_picture_outlives_its_epoch(playing: Opened) -> None:
    page = playing()
    page.evaluate(_TELL)
    keys = page.evaluate(
        """async () => {
          tour.interrupt();
          const picture = await peer.picture('a');
          peer.bundle(peer.event('asset', picture.asset));
          peer.send(peer.parts(picture));
          await until(() => peer.of('ready').some((message) => message.key === 'a'));
          peer.bundle(peer.interrupt());
          const words = [peer.text('It '), peer.mark()], reveal = peer.reveal('a');
          peer.bundle(...words, reveal);
          await applied(reveal);
          return Array.from(root.querySelectorAll('[part=stage] img[src]'), (i) => i.dataset.key);
        }"""
    )
    assert keys == ["a"]


def test_receipts_and_figures_go_on_with_the_next_turn(playing: Opened) -> None:
    page = playing()
    page.evaluate(_TELL)
    result = page.evaluate(
        """async () => {
          const before = {...tour.stats}; // its mark stands after one token: not a regular one
          peer.bundle(peer.text('tle '));
          peer.bundle(peer.interrupt());
          await peer.give('a');
          peer.bundle(peer.mark(), peer.reveal('old'));
          peer.bundle(peer.text('one '), peer.text('two '), peer.text('three '), peer.mark(), peer.reveal('a'));
          await until(() => root.querySelector('[data-key=a]'));
          const {reveals, judged, sameFrame} = tour.stats;
          return {before: before.judged, reveals, judged, sameFrame, tok: peer.tok};
        }"""
    )
    assert result == {"before": 0, "reveals": 3, "judged": 1, "sameFrame": 1, "tok": 5}


def test_a_stream_that_ends_under_the_stop_still_ends(playing: Opened) -> None:
    page = playing()
    page.evaluate(_TELL)
    state = page.evaluate(
        """async () => {
          tour.interrupt();
          peer.bundle(peer.text('tle.'), peer.event('end', {reason: 'complete', unused: []}));
          await until(() => peer.of('bye').length);
          return [tour.state, words()];
        }"""
    )
    assert state == ["ended", ["About the ket"]]


def test_outside_a_tour_there_is_nothing_to_interrupt(opened: Opened) -> None:
    page = opened()
    said = page.evaluate(
        """async () => {
          tour.interrupt();
          tour.ask('Anybody?');
          tour.play();
          tour.interrupt();
          await until(() => peer.of('hello').length);
          peer.bundle(peer.start(), peer.text('Hello.'));
          await until(() => root.querySelector('.word'));
          return peer.got.map((message) => message.type).filter((type) => type === 'interrupt' || type === 'ask');
        }"""
    )
    assert said == []


def test_twenty_interruptions_at_random_points(playing: Opened) -> None:
    page = playing()
    result = page.evaluate(
        """async () => {
          let seed = 7;
          const random = (n) => (seed = seed * 48271 % 2147483647) % n;
          const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
          for (let i = 0; i <= 20; i++) await peer.give(`e${i}-picture`);
          let fence = 0;
          const late = [], shown = [];
          new MutationObserver((list) => list.forEach((m) => m.addedNodes.forEach((node) => {
            const what = node.className === 'slot' ? node.querySelector('img').dataset.key : node.textContent;
            const of = /^e(\\d+)-/.exec(what)?.[1];
            if (of !== undefined) (Number(of) < fence ? late : shown).push(Number(of));
          }))).observe(root, {childList: true, subtree: true});

          // The server: tells its epoch on and on, and obeys a stop some time after it was said.
          let telling = true, stops = 0, told = 0;
          const server = (async () => {
            while (telling) {
              const stop = peer.of('interrupt')[stops];
              if (stop && random(3) === 0) {
                stops++;
                if (stop.epoch !== peer.epoch) throw new Error(`stop of ${stop.epoch} in ${peer.epoch}`);
                peer.bundle(peer.interrupt());
              }
              const events = Array.from({length: 1 + random(3)}, () => peer.text(`e${peer.epoch}-${told++} `));
              if (random(2)) events.push(peer.mark(), peer.reveal(`e${peer.epoch}-picture`));
              peer.bundle(...events);
              await sleep(random(12));
            }
          })();
          for (let i = 0; i < 20; i++) {
            await sleep(random(60));
            fence++;
            tour.interrupt();
            if (random(3)) await until(() => peer.epoch === fence);
            if (i % 3 === 0) await until(() => shown.includes(fence));
          }
          await until(() => peer.epoch === 20);
          await until(() => shown.includes(20));
          telling = false;
          await server;
          const acked = peer.seq - 1;
          await until(() => peer.of('ack').at(-1).seq === acked);
          await frames2();
          return {late, epochs: new Set(shown).size, last: shown.at(-1), state: tour.state,
                  sorted: shown.every((epoch, i) => !i || shown[i - 1] <= epoch)};
        }"""
    )
    assert result["late"] == []
    assert result["epochs"] > 5
    assert (result["last"], result["sorted"], result["state"]) == (20, True, "playing")
