"""Words on the page: exact, one span per token, never markup, and read aloud by the sentence."""

from __future__ import annotations

from tests.player.conftest import Opened


def test_the_words_are_exactly_the_text(playing: Opened) -> None:
    page = playing()
    result = page.evaluate(
        """async () => {
          const said = ['The', ' kettle', "'s", '  lid', ' is\\n', 'ash', '.', '\\n', '\\n', 'Next', ' one',
                        ' 你', '好', '，', '世界'];
          peer.bundle(...said.map((text) => peer.text(text)));
          await until(() => root.querySelector('[data-tok="14"]'));
          const words = root.querySelector('[part=text] div');
          return {said: said.join(''), shown: words.textContent, paragraphs: words.querySelectorAll('p').length,
                  toks: Array.from(words.querySelectorAll('.word'), (w) => [w.dataset.tok, w.textContent])};
        }"""
    )
    assert result["shown"] == result["said"]
    assert result["paragraphs"] == 2
    assert [int(tok) for tok, _ in result["toks"]] == list(range(15))
    assert result["toks"][2] == ["2", "'s"]


def test_a_run_of_tokens_ends_in_its_last_token(playing: Opened) -> None:
    page = playing()
    toks = page.evaluate(
        """async () => {
          peer.bundle(peer.text('one two three four ', 3), peer.text('five six', 4), peer.text('seven', 1));
          await until(() => root.querySelector('[data-tok="7"]'));
          return Array.from(root.querySelectorAll('.word'), (w) => [w.textContent, Number(w.dataset.tok)]);
        }"""
    )
    assert toks == [["one", 0], ["two", 1], ["three", 2], ["four", 2], ["five", 3], ["six", 6], ["seven", 7]]


def test_white_space_at_the_end_is_kept_until_the_next_word_or_the_end(playing: Opened) -> None:
    page = playing()
    shown = page.evaluate(
        """async () => {
          const words = root.querySelector('[part=text] div'), shown = [];
          const end = peer.event.bind(peer, 'end', {reason: 'complete', unused: []});
          for (const make of [() => peer.text('one '), () => peer.text(' '), () => peer.text('two\\n'), end]) {
            const event = make();
            peer.bundle(event);
            await until(() => peer.of('painted').at(-1).seq === event.seq);
            shown.push(words.textContent);
          }
          return shown;
        }"""
    )
    assert shown == ["one", "one", "one  two", "one  two\n"]


def test_markup_is_shown_and_not_run(playing: Opened) -> None:
    page = playing()
    result = page.evaluate(
        """async () => {
          const bad = '<img src=x onerror="window.hacked=1"><script>window.hacked=2</script>';
          peer.bundle(peer.event('asset', {key: 'x', product: 'p', alt: bad, width_px: 4, height_px: 4,
                                           placeholder: 'javascript:window.hacked=3', variants: []}),
                      peer.text(bad), peer.mark(), peer.reveal('x', {preview: true, product: 'p'}));
          await until(() => root.querySelector('img[data-key=x]'));
          await new Promise((done) => setTimeout(done, 200));
          return {shown: root.querySelector('[part=text] div').textContent === bad, hacked: window.hacked ?? 0,
                  images: root.querySelectorAll('[part=text] img, [part=text] script').length,
                  alt: root.querySelector('img').alt === bad, src: root.querySelector('img').getAttribute('src')};
        }"""
    )
    assert result == {"shown": True, "hacked": 0, "images": 0, "alt": True, "src": None}


def test_a_catalogues_script_url_is_no_link(opened: Opened) -> None:
    page = opened()
    links = page.evaluate(
        """async () => {
          tour.play();
          await until(() => peer.of('hello').length);
          const product = (id, url) => ({id, title: id, price: '5', currency: 'nonsense', aliases: [], url});
          peer.bundle(peer.start([product('a', 'javascript:alert(1)'), product('b', 'https://shop.example/b')]),
                      peer.event('asset', {key: 'a', product: 'a', alt: '', width_px: 1, height_px: 1, variants: []}),
                      peer.event('asset', {key: 'b', product: 'b', alt: '', width_px: 1, height_px: 1, variants: []}),
                      peer.mark(), peer.reveal('a'), peer.reveal('b'));
          await until(() => root.querySelectorAll('[part=title]').length === 2);
          return Array.from(root.querySelectorAll('[part=caption] > div'), (line) =>
            [line.firstChild.tagName, line.firstChild.href ?? '', line.lastChild.textContent]);
        }"""
    )
    assert links == [["SPAN", "", "5 nonsense"], ["A", "https://shop.example/b", "5 nonsense"]]


def test_text_is_selected_and_copied_as_plain_text(playing: Opened) -> None:
    page = playing()
    copied = page.evaluate(
        """async () => {
          const said = ['The ket', 'tle', ' sings.\\n\\n', 'Buy', ' it.'];
          peer.bundle(...said.map((text) => peer.text(text)));
          await until(() => root.querySelector('[data-tok="4"]'));
          const range = document.createRange();
          range.selectNodeContents(root.querySelector('[part=text] div'));
          getSelection().removeAllRanges();
          getSelection().addRange(range);
          return getSelection().toString();
        }"""
    )
    assert copied.replace("\n\n", "|").strip() == "The kettle sings.|Buy it."


def test_a_word_in_pieces_does_not_break_and_wide_scripts_do(playing: Opened) -> None:
    page = playing(viewport={"width": 390, "height": 844})
    tops = page.evaluate(
        """async () => {
          for (let i = 0; i < 40; i++) peer.bundle(peer.text(' ket'), peer.text('tle'), peer.text('.'));
          const wide = '你好世界这是一个很长的句子没有空格也要换行才能读得舒服一些';
          peer.bundle(...wide.split('').map((c) => peer.text(c)));
          await until(() => root.querySelector('[data-tok="140"]'));
          const top = (tok) => root.querySelector(`[data-tok="${tok}"]`).getBoundingClientRect().top;
          const split = [];
          for (let i = 0; i < 120; i += 3) {
            if (top(i) !== top(i + 1) || top(i) !== top(i + 2)) split.push(i);
          }
          const box = root.querySelector('[part=text]');
          const lines = new Set(Array.from({length: 21}, (_, i) => top(120 + i)));
          return {split, wide: lines.size, over: box.scrollWidth - box.clientWidth};
        }"""
    )
    assert tops["split"] == []
    assert tops["wide"] >= 2
    assert tops["over"] == 0


def test_whole_sentences_go_to_the_live_region(playing: Opened) -> None:
    page = playing()
    heard = page.evaluate(
        """async () => {
          const live = root.querySelector('[aria-live=polite]'), heard = [];
          new MutationObserver((list) => list.forEach((m) => m.addedNodes.forEach((n) => heard.push(n.textContent))))
            .observe(live, {childList: true});
          for (const text of ['It', ' costs', ' 89.50', ' euros', '.', ' That', ' is', ' all.', ' Really', '.']) {
            peer.bundle(peer.text(text));
            await frames2();
          }
          peer.bundle(peer.event('end', {reason: 'complete', unused: []}));
          await until(() => tour.state === 'ended');
          await frames2();
          return {heard, tokens: root.querySelector('[part=text] [aria-live]')};
        }"""
    )
    assert heard == {"heard": ["It costs 89.50 euros.", "That is all.", "Really."], "tokens": None}


def test_the_text_follows_unless_the_reader_scrolled_up(playing: Opened) -> None:
    page = playing(viewport={"width": 390, "height": 844})
    gaps = page.evaluate(
        """async () => {
          const box = root.querySelector('[part=text]');
          const gap = () => box.scrollHeight - box.scrollTop - box.clientHeight;
          for (let i = 0; i < 30; i++) peer.bundle(peer.text(`Words enough to fill several lines, number ${i}. `));
          await until(() => root.querySelector('[data-tok="29"]'));
          const followed = gap();
          box.scrollTop = 0;
          peer.bundle(peer.text('More. '));
          await until(() => root.querySelector('[data-tok="30"]'));
          return {overflows: box.scrollHeight > box.clientHeight, followed, stayed: box.scrollTop};
        }"""
    )
    assert gaps["overflows"]
    assert gaps["followed"] <= 1
    assert gaps["stayed"] == 0
