"""Coming back to a seat, against a peer in the page: nothing lost, nothing twice, and what is seen of it."""

from __future__ import annotations

from tests.player.conftest import Opened
from tests.player.tour_page import ROADS, SEEN, WORDS, begun


def test_a_lost_road_is_found_again_and_no_word_is_lost_or_doubled(playing: Opened) -> None:
    page = playing()
    result = page.evaluate(
        f"""async () => {{
          {ROADS};
          const states = [];
          new MutationObserver(() => states.push(tour.state)).observe(tour, {{attributeFilter: ['state']}});
          peer.bundle(peer.text('one '), peer.text('two '));
          await until(() => root.querySelector('[data-tok="1"]'));
          peer.cut();
          peer.bundle(peer.text('three '));
          peer.bundle(peer.text('four'));
          await until(() => root.querySelector('[data-tok="3"]'));
          await told();
          return {{words: {WORDS}, seen: {SEEN}, states, hellos: peer.of('hello'),
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
    page = begun(opened, "peer.falls = 1")
    result = page.evaluate(
        f"""async () => {{
          await until(() => peer.of('hello').length === 2);
          peer.bundle(peer.start(), peer.text('one'));
          await until(() => root.querySelector('.word'));
          return [{WORDS}, {SEEN}, peer.of('hello').map((hello) => hello.resume), peer.sockets.length, tour.road];
        }}"""
    )
    assert result == ["one", [0, 1], [False, True], 0, "webrtc"]


def test_an_offer_to_a_shop_that_has_answered_one_is_made_again(opened: Opened) -> None:
    """The first road falls before its first word, and the network with it: the seat is there, so it is worth a wait."""
    page = begun(opened, "peer.falls = 1")
    result = page.evaluate(
        f"""async () => {{
          await until(() => peer.of('hello').length === 1);
          peer.offline = true;
          setTimeout(() => peer.offline = false, 600);
          await until(() => peer.of('hello').length === 2 || tour.state === 'error');
          peer.bundle(peer.start(), peer.text('one'));
          await until(() => root.querySelector('.word') || tour.state === 'error');
          return [tour.state, {WORDS}, {SEEN}, tour.road];
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
          return [{WORDS}, {SEEN}, peer.of('hello')[1].cursor];
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
          return [{WORDS}, {SEEN}, peer.of('hello')[1].cursor];
        }}"""
    )
    assert result == ["lost after", [0, 1, 2], 0]


def test_silence_is_a_lost_road_and_is_said_quietly(playing: Opened) -> None:
    page = playing()
    result = page.evaluate(
        f"""async () => {{
          {ROADS};
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
          return [{WORDS}, {SEEN}];
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
