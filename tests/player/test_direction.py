"""Words stand in the order in which the same plain text would stand, whatever its direction and that of the page."""

from __future__ import annotations

import pytest

from tests.player.conftest import Opened

TEXTS = {
    "hebrew": ["הקומקום", " Halo", " Kettle", " עולה", " 89", ".", "50", " אירו", ",", " לא", " יותר", "."],
    "arabic in pieces": ["ال", "غلا", "ية", " Halo", " Kettle", "،", " ثمنها", " 89", " يورو", " (", "جديدة", ")", "."],
    "a name first": ["Halo", " Kettle", " الغلاية", " الهادئة", " من", " Larkmoor", " Goods", "."],
    "a number first": ["3", " كؤوس", " و", "12", " صحنا", " جميلا", "."],
    "english": ["The", " kettle", " is", " called", " קומקום", " הלו", " there", ",", " and", " costs", " 89", "."],
    "chinese": ["水壶", " Halo", " Kettle", "，", "售价", "89", "欧元", "。", "很", "安静", "。"],
}


@pytest.mark.parametrize("page_is", ["ltr", "rtl"])
@pytest.mark.parametrize("name", TEXTS)
def test_the_words_stand_where_plain_text_stands(playing: Opened, name: str, page_is: str) -> None:
    page = playing(f'dir="{page_is}"', viewport={"width": 390, "height": 844})
    result = page.evaluate(
        """async (said) => {
          const words = root.querySelector('[part=text] div'), last = said.length - 1;
          const origin = (element) => { const box = element.getBoundingClientRect(); return [box.left, box.top]; };
          for (const text of said) {
            peer.bundle(peer.text(text));
            await frames2();
          }
          await until(() => words.querySelector(`[data-tok="${last}"]`));
          const paragraph = words.querySelector('p'), direction = getComputedStyle(paragraph).direction;
          const [left, top] = origin(paragraph);
          const boxes = (rects) => rects.map((box) => [box.left, box.top, box.width].map(Math.round));
          const ours = boxes(Array.from(words.querySelectorAll('.word'), (word) => {
            const {left: x, top: y, width} = word.getBoundingClientRect();
            return {left: x - left, top: y - top, width};
          }));
          // The same words as one text node, in a paragraph of the same direction.
          const plain = document.createElement('p');
          plain.textContent = words.textContent;
          plain.dir = direction;
          words.replaceChildren(plain);
          const [plainLeft, plainTop] = origin(plain);
          let at = 0;
          const theirs = boxes(said.map((text) => {
            const word = text.trim(), range = document.createRange(), from = plain.textContent.indexOf(word, at);
            at = from + word.length;
            range.setStart(plain.firstChild, from);
            range.setEnd(plain.firstChild, at);
            const {left: x, top: y, width} = range.getBoundingClientRect();
            return {left: x - plainLeft, top: y - plainTop, width};
          }));
          return {direction, ours, theirs};
        }""",
        TEXTS[name],
    )
    for ours, theirs in zip(result["ours"], result["theirs"], strict=True):
        assert max(abs(a - b) for a, b in zip(ours, theirs, strict=True)) <= 1, (result["ours"], result["theirs"])
    begins_rtl = name in ("hebrew", "arabic in pieces", "a number first")
    # A page that says right to left is believed: its narration may begin with a foreign name.
    assert result["direction"] == ("rtl" if page_is == "rtl" or begins_rtl else "ltr")


def test_each_paragraph_has_its_own_direction(playing: Opened) -> None:
    page = playing()
    directions = page.evaluate(
        """async () => {
          const said = ['Hello.', '\\n\\n', '89', ' שלום', '.\\n\\n', '7', ' more', '.'];
          peer.bundle(...said.map((text) => peer.text(text)));
          await until(() => root.querySelector('[data-tok="7"]'));
          return Array.from(root.querySelectorAll('[part=text] p'), (p) => getComputedStyle(p).direction);
        }"""
    )
    assert directions == ["ltr", "rtl", "ltr"]


def test_in_a_right_to_left_page_the_newest_thumbnail_is_in_view(playing: Opened) -> None:
    page = playing('dir="rtl"', viewport={"width": 390, "height": 844})
    places = page.evaluate(
        """async () => {
          for (let i = 0; i < 9; i++) {
            await peer.give(`p${i}`);
            peer.bundle(peer.text('w '), peer.mark(), peer.reveal(`p${i}`));
          }
          await until(() => root.querySelector('[data-key=p8]'));
          const strip = root.querySelector('[part=strip]').getBoundingClientRect();
          const thumbs = Array.from(root.querySelectorAll('[part=thumb]'), (t) => t.getBoundingClientRect());
          return [thumbs[0].right > strip.right, thumbs[8].left >= strip.left - 1, thumbs[8].right <= strip.right + 1];
        }"""
    )
    assert places == [True, True, True]
