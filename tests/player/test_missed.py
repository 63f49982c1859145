"""A product whose picture does not come is not told beside another product's picture, name and price."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page

from tests.player.conftest import Opened

_BEGIN = """async () => {
  tour.play();
  await until(() => peer.of('hello').length);
  const product = (id, title, price) => ({id, title, price, currency: 'EUR', aliases: [], url: ''});
  peer.bundle(peer.start([product('k', 'Halo Kettle', '89.00'), product('l', 'Ember Lamp', '120.00'),
                          product('m', 'Mug', '')]));
  await peer.give('kettle', {product: 'k'});
  peer.bundle(peer.text('The kettle. '), peer.mark(), peer.reveal('kettle', {product: 'k'}));
  await until(() => root.querySelector('[data-key=kettle]'));
  window.missed = [];
  tour.addEventListener('tour-missed', ({detail}) => missed.push([detail.key, detail.product, detail.reason]));
  window.stage = () => ({
    pictures: Array.from(root.querySelectorAll('[part=slot]'), ({firstChild: it}) => it.dataset.key ?? it.textContent),
    titles: Array.from(root.querySelectorAll('[part=title]'), (e) => e.textContent),
    prices: Array.from(root.querySelectorAll('[part=price]'), (e) => e.textContent),
    current: root.querySelectorAll('[part=thumb][aria-current]').length,
  });
  window.apply = async (...events) => {
    peer.bundle(...events);
    await until(() => peer.of('painted').at(-1).seq === events.at(-1).seq);
    return stage();
  };
  window.lose = (key, reason, fields = {}) => peer.event('missed', {cue: 1, key, anchor: peer.tok, reason, ...fields});
}"""
KETTLE = {
    "pictures": ["kettle"],
    "titles": ["Halo Kettle"],
    "prices": ["€89.00"],
    "current": 1,
}


@pytest.fixture
def page(opened: Opened) -> Page:
    page = opened()
    page.evaluate(_BEGIN)
    return page


def _lamp(words: str = "Ember Lamp") -> dict[str, Any]:
    return {"pictures": [words], "titles": ["Ember Lamp"], "prices": ["€120.00"], "current": 0}


@pytest.mark.parametrize("reason", ["no picture of this product", "late", "undecodable"])
def test_the_stage_turns_to_the_product_in_the_frame_of_its_words(page: Page, reason: str) -> None:
    result = page.evaluate(
        """async (reason) => {
          let frame = 0;
          const count = () => { frame++; requestAnimationFrame(count); };
          requestAnimationFrame(count);
          const seen = [];
          new MutationObserver((list) => list.forEach((m) => m.addedNodes.forEach((node) => {
            if (['g', 'slot'].includes(node.className) || node.nodeName === 'DIV') seen.push(frame);
          }))).observe(root, {childList: true, subtree: true});
          const after = await apply(peer.text('The lamp '), peer.mark(), lose('l', reason));
          await told();
          return {after, frames: new Set(seen).size, missed, count: tour.stats.missed, reveals: tour.stats.reveals};
        }""",
        reason,
    )
    assert result == {
        "after": _lamp(),
        "frames": 1,
        "missed": [["l", "l", reason]],
        "count": 1,
        "reveals": 1,
    }


def test_the_product_is_found_by_the_event_the_description_or_the_key(page: Page) -> None:
    result = page.evaluate(
        """async () => {
          const about = {key: 'lamp-2', product: 'l', alt: 'a lamp', width_px: 40, height_px: 80, variants: []};
          const back = () => apply(peer.text('. '), peer.mark(), peer.reveal('kettle', {product: 'k'}));
          const named = await apply(peer.text('A '), lose('anything', 'failed', {product: 'l'}));
          await back();
          const lost = () => lose('lamp-2', 'failed', {product: ''});
          const described = await apply(peer.event('asset', about), peer.text('B '), lost());
          const box = root.querySelector('.slot').getBoundingClientRect();
          const kettle = await back();
          const unpriced = await apply(peer.text('C '), lose('m', 'failed'));
          return {named, described, ratio: box.width / box.height, kettle, unpriced};
        }"""
    )
    assert result["named"] == _lamp()
    assert result["described"] == _lamp("a lamp")
    assert abs(result["ratio"] - 0.5) < 0.02, "the place keeps the shape that was described"
    assert result["kettle"] == KETTLE
    assert result["unpriced"] == {"pictures": ["Mug"], "titles": ["Mug"], "prices": [""], "current": 0}


def test_what_says_nothing_of_another_product_changes_nothing(page: Page) -> None:
    result = page.evaluate(
        """async () => {
          const stages = [];
          peer.bundle(peer.text('More '), peer.mark());
          stages.push(await apply(lose('kettle-side', 'failed', {product: 'k'})));
          stages.push(await apply(lose('nobody-knows', 'failed')));
          for (const reason of ['interrupted', 'beyond_end', 'too_late']) stages.push(await apply(lose('l', reason)));
          await told();
          return {stages, missed, count: tour.stats.missed};
        }"""
    )
    assert result["stages"] == [KETTLE] * 5
    assert result["missed"] == [["kettle-side", "k", "failed"], ["nobody-knows", "", "failed"]]
    assert result["count"] == 4, "an interrupted cue was not missed: nobody waited for it any more"


def test_cues_of_one_mark_stand_side_by_side_also_without_a_picture(page: Page) -> None:
    result = page.evaluate(
        """async () => {
          await peer.give('lamp', {product: 'l'});
          const kettle = () => peer.reveal('kettle', {product: 'k'});
          const both = await apply(peer.text('Both. '), peer.mark(), kettle(), lose('l', 'x'));
          const came = await apply(peer.reveal('lamp', {product: 'l'}));
          const next = await apply(peer.text('On. '), peer.mark(), lose('m', 'x'));
          return {both, came, next};
        }"""
    )
    assert result["both"]["pictures"] == ["kettle", "Ember Lamp"]
    assert result["both"]["titles"] == ["Halo Kettle", "Ember Lamp"]
    assert result["came"]["pictures"] == ["kettle", "lamp"]
    assert result["came"]["titles"] == ["Halo Kettle", "Ember Lamp"]
    assert result["next"]["titles"] == ["Mug"]


def test_a_picture_that_comes_after_its_skipped_cue_stays_away(page: Page) -> None:
    result = page.evaluate(
        """async () => {
          const lamp = await peer.picture('lamp', {product: 'l'});
          await apply(peer.event('asset', lamp.asset), peer.text('The lamp '), peer.mark(), lose('lamp', 'late'));
          peer.send(peer.parts(lamp));
          await until(() => peer.of('ready').some((message) => message.key === 'lamp'));
          await frames2();
          return stage();
        }"""
    )
    assert result == _lamp("a picture of lamp")
