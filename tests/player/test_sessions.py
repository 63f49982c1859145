"""Starting, pausing, restarting, ending and failing: what the viewer sees, and what is let go."""

from __future__ import annotations

import pytest

from tests.player.conftest import Opened


def test_restart_makes_a_new_session_and_deletes_the_old(playing: Opened) -> None:
    page = playing()
    result = page.evaluate(
        """async () => {
          await peer.give('a');
          peer.bundle(peer.text('old '), peer.mark(), peer.reveal('a'));
          await until(() => root.querySelector('[data-key=a]'));
          root.querySelector('[part~=restart]').click();
          await until(() => peer.of('hello').length === 2);
          const clean = [root.querySelectorAll('.word').length, root.querySelectorAll('img').length, tour.log.length];
          peer.bundle(peer.start(), peer.text('new'));
          await until(() => root.querySelector('.word'));
          return {clean, posts: peer.posts.length, deletes: peer.deletes, text: root.querySelector('.word').textContent,
                  reveals: tour.stats.reveals, state: tour.state};
        }"""
    )
    assert result == {
        "clean": [0, 0, 0],
        "posts": 2,
        "deletes": ["http://localhost/tour/whep/demo/1"],
        "text": "new",
        "reveals": 0,
        "state": "playing",
    }


_ORDER = """() => {
  window.order = [];
  const fetched = window.fetch, close = RTCPeerConnection.prototype.close;
  window.fetch = (url, init) => {
    const answer = fetched(url, init);
    if (init.method === 'DELETE') {
      order.push('DELETE');
      answer.then(() => order.push('answered'));
    }
    return answer;
  };
  RTCPeerConnection.prototype.close = function () {
    order.push('close');
    return close.call(this);
  };
}"""


def test_a_session_is_deleted_before_its_connection_goes(playing: Opened) -> None:
    """The other way round the server ends the session by itself, and the browser logs a 404 for the DELETE."""
    page = playing()
    page.evaluate(_ORDER)
    result = page.evaluate(
        """async () => {
          tour.restart();
          peer.sessions[0].events.send(JSON.stringify({type: 'bundle', v: 1, events: [peer.text('old')], more: false}));
          await until(() => order.includes('close') && peer.of('hello').length === 2);
          return {order: order.slice(0, 3), log: tour.log.length, hellos: peer.of('hello').length};
        }"""
    )
    assert result == {"order": ["DELETE", "answered", "close"], "log": 0, "hellos": 2}


def test_a_delete_without_an_answer_keeps_no_connection(playing: Opened) -> None:
    page = playing()
    page.evaluate(_ORDER)
    order = page.evaluate(
        """async () => {
          const asked = window.fetch;
          const never = () => new Promise(() => order.push('DELETE'));
          window.fetch = (url, init) => init.method === 'DELETE' ? never() : asked(url, init);
          tour.restart();
          await until(() => order.includes('close'));
          return order;
        }"""
    )
    assert order == ["DELETE", "close"]


def test_playing_again_at_once_deletes_nothing(playing: Opened) -> None:
    page = playing()
    page.evaluate(_ORDER)
    result = page.evaluate(
        """async () => {
          peer.bundle(peer.event('end', {reason: 'complete', unused: []}));
          await until(() => peer.of('bye').length);
          tour.play();
          await until(() => peer.of('hello').length === 2);
          return {order, state: tour.state};
        }"""
    )
    assert result == {"order": ["close"], "state": "connecting"}, "the goodbye has ended that session"


def test_restarting_at_once_leaves_one_session(opened: Opened) -> None:
    page = opened()
    result = page.evaluate(
        """async () => {
          tour.play();
          await until(() => peer.posts.length === 1);
          tour.restart();
          await until(() => peer.posts.length === 2);
          tour.restart();
          await until(() => peer.of('hello').length && peer.deletes.length === 2);
          await new Promise((done) => setTimeout(done, 100));
          return {hellos: peer.of('hello').length, posts: peer.posts.length, state: tour.state};
        }"""
    )
    assert result["hellos"] == 1, "answers of sessions that were given up are not used"
    assert result["state"] == "connecting"


def test_the_poster_stays_until_the_first_picture(opened: Opened) -> None:
    poster = '<img slot="poster" alt="" src="data:image/svg+xml,<svg xmlns=\'http://www.w3.org/2000/svg\'/>">'
    page = opened(inside=poster)
    result = page.evaluate(
        """async () => {
          const poster = tour.querySelector('img'), stands = () => poster.checkVisibility();
          const seen = {idle: stands()};
          await shifted(); // what the page itself did when the element woke up in it
          tour.play();
          seen.connecting = stands();
          await until(() => peer.of('hello').length);
          peer.bundle(peer.start());
          await peer.give('a');
          peer.bundle(peer.text('Welcome. '), peer.mark());
          await until(() => root.querySelector('.word'));
          seen.words = stands();
          const box = () => JSON.stringify(root.querySelector('[part=stage]').getBoundingClientRect()), stage = box();
          new MutationObserver(() => seen.frame ??= [stands(), root.querySelector('.slot img').dataset.key])
            .observe(root.querySelector('.pictures'), {childList: true});
          peer.bundle(peer.text('A kettle. '), peer.mark(), peer.reveal('a'));
          await until(() => root.querySelector('[data-key=a]'));
          seen.still = await shifted();
          seen.box = stage === box();
          peer.bundle(peer.interrupt());
          await until(() => !root.querySelector('[data-key=a]'));
          seen.interrupted = stands();
          tour.restart();
          seen.restart = stands();
          return seen;
        }"""
    )
    assert result == {
        "idle": True,
        "connecting": True,
        "words": True,
        "frame": [False, "a"],
        "still": 0,
        "box": True,
        "interrupted": False,
        "restart": True,
    }


def test_pause_and_resume_by_keyboard(playing: Opened) -> None:
    page = playing()
    button = page.get_by_role("button", name="Pause")
    button.focus()
    page.keyboard.press("Enter")
    assert page.evaluate("tour.state") == "paused"
    page.get_by_role("button", name="Resume").press(" ")
    page.evaluate("until(() => peer.of('resume').length)")
    assert page.evaluate("[tour.state, peer.of('pause').length]") == ["playing", 1]


def test_the_end_is_reported_and_the_session_let_go(playing: Opened) -> None:
    page = playing()
    result = page.evaluate(
        """async () => {
          const heard = [];
          for (const name of ['tour-end', 'tour-error']) {
            tour.addEventListener(name, (e) => heard.push([name, e.detail.reason]));
          }
          const end = peer.event('end', {reason: 'complete', unused: []});
          peer.bundle(end);
          await until(() => peer.deletes.length);
          return {heard, state: tour.state, last: peer.of('painted').at(-1).seq === end.seq,
                  order: peer.got.map((m) => m.type).filter((type) => type === 'painted' || type === 'bye')};
        }"""
    )
    assert result["heard"] == [["tour-end", "complete"]]
    assert result["state"] == "ended"
    assert result["last"]
    assert result["order"] == ["painted", "painted", "bye"], "the last receipt leaves before the goodbye"
    assert page.get_by_role("button", name="Play again").is_visible()


@pytest.mark.parametrize(
    ("set_up", "code", "words"),
    [
        ("peer.refuse = 404", "not_found", "no longer here"),
        ("peer.refuse = 401", "denied", "not open to you"),
        ("peer.refuse = 503", "busy", "try again in a moment"),
        ("peer.refuse = 500", "server", "could not start"),
        ("peer.offline = true", "network", "could not be reached"),
        ("tour.setAttribute('src', 'http://')", "network", "could not be reached"),
        ("window.Real = RTCPeerConnection; RTCPeerConnection = undefined", "ice", "did not let the tour through"),
    ],
)
def test_a_failed_start_is_said_quietly_and_can_be_tried_again(
    opened: Opened, set_up: str, code: str, words: str
) -> None:
    page = opened()
    detail = page.evaluate(
        """async (setUp) => {
          eval(setUp);
          let detail;
          tour.addEventListener('tour-error', (event) => detail = event.detail);
          tour.play();
          await until(() => detail);
          peer.refuse = peer.offline = 0;
          tour.setAttribute('src', '/tour/whep/demo');
          window.RTCPeerConnection = window.Real ?? RTCPeerConnection;
          return detail;
        }""",
        set_up,
    )
    assert detail["code"] == code
    assert page.evaluate("tour.state") == "error"
    assert words in page.locator("[part=message]").inner_text()
    page.get_by_role("button", name="Try again").click()
    page.evaluate("until(() => peer.of('hello').length)")
    assert page.evaluate("root.querySelector('[part=message]').textContent") == "Connecting…"


def test_an_error_says_what_the_server_called_it(opened: Opened) -> None:
    """By whatever road it was refused, and where a proxy answers in its place, nothing is made up."""
    page = opened()
    details = page.evaluate(
        """async () => {
          const details = [], refused = async (settings) => {
            Object.assign(peer, { refuse: 0, websocket: 'refused', sse: 'refused', because: '' }, settings);
            const before = details.length;
            tour.play();
            await until(() => details.length > before);
          };
          tour.addEventListener('tour-error', ({ detail }) => {
            details.push({ code: detail.code, status: detail.status, reason: detail.reason });
          });
          await refused({ refuse: 401, because: 'token_expired' });
          await refused({ refuse: 404, because: 'no_such_tour' });
          await refused({ refuse: 502 });
          window.RTCPeerConnection = undefined;
          await refused({ websocket: 4403, because: 'wrong_scope' });
          await refused({ sse: 503, because: 'too_many_sessions' });
          await refused({});
          return details;
        }"""
    )
    assert details == [
        {"code": "denied", "status": 401, "reason": "token_expired"},
        {"code": "not_found", "status": 404, "reason": "no_such_tour"},
        {"code": "server", "status": 502, "reason": None},
        {"code": "denied", "status": 403, "reason": "wrong_scope"},
        {"code": "busy", "status": 503, "reason": "too_many_sessions"},
        {"code": "ice", "status": None, "reason": None},
    ]


def test_a_road_that_carries_nothing_is_given_up(opened: Opened) -> None:
    page = opened()
    detail = page.evaluate(
        """async () => {
          let detail;
          tour.addEventListener('tour-error', (event) => detail = event.detail);
          peer.deaf = true;
          tour.play();
          await until(() => detail);
          return detail;
        }"""
    )
    assert detail["code"] == "ice"
    assert page.evaluate("peer.deletes.length") == 1


def test_a_session_that_the_server_ended_is_not_deleted_again(playing: Opened) -> None:
    page = playing()
    page.evaluate(_ORDER)
    result = page.evaluate(
        """async () => {
          const real = window.setTimeout, late = [];
          window.setTimeout = (act, ms, ...rest) => ms === 1000 ? late.push(act) : real(act, ms, ...rest);
          peer.bundle(peer.event('end', {reason: 'complete', unused: []}));
          await until(() => peer.of('bye').length);
          peer.now.pc.close();
          await until(() => order.length === 2);
          late.forEach((act) => act()); // a second after the goodbye, however long the close took to come
          return {late: late.length, order, deletes: peer.deletes, state: tour.state};
        }"""
    )
    assert result == {"late": 1, "order": ["close", "close"], "deletes": [], "state": "ended"}


def test_a_lost_connection_keeps_what_was_shown(playing: Opened) -> None:
    page = playing()
    result = page.evaluate(
        """async () => {
          peer.bundle(peer.text('Before the tunnel.'));
          await until(() => root.querySelector('.word'));
          peer.gone = true;
          peer.now.pc.close();
          await until(() => tour.state === 'error');
          return root.querySelector('[part=text] div').textContent;
        }"""
    )
    assert result == "Before the tunnel."


def test_a_stream_that_fails_says_so(playing: Opened) -> None:
    page = playing()
    result = page.evaluate(
        """async () => {
          const heard = [];
          for (const name of ['tour-end', 'tour-error']) {
            tour.addEventListener(name, (e) => heard.push([name, e.detail.code ?? e.detail.reason]));
          }
          peer.bundle(peer.text('Half a sen'), peer.event('error', {code: 'text_pipe', message: 'it broke'}),
                      peer.event('end', {reason: 'error', unused: []}));
          await until(() => heard.length === 2 && peer.of('bye').length);
          peer.now.pc.close();
          await new Promise((done) => setTimeout(done, 100));
          return {heard, state: tour.state, message: root.querySelector('[part=message]').textContent};
        }"""
    )
    assert result["heard"] == [["tour-error", "text_pipe"], ["tour-end", "error"]]
    assert result["state"] == "error"
    assert result["message"] == "The narration stopped early."


def test_leaving_the_page_deletes_the_session(playing: Opened) -> None:
    page = playing()
    result = page.evaluate(
        """() => {
          const kept = [], real = window.fetch;
          window.fetch = (url, init) => { kept.push(init.keepalive); return real(url, init); };
          dispatchEvent(new PageTransitionEvent('pagehide'));
          return {deletes: peer.deletes, kept, state: tour.state};
        }"""
    )
    assert result == {"deletes": ["http://localhost/tour/whep/demo/1"], "kept": [True], "state": "idle"}


def test_taking_the_element_out_deletes_the_session_and_moving_it_does_not(playing: Opened) -> None:
    page = playing()
    result = page.evaluate(
        """async () => {
          document.body.append(tour);
          await frames2();
          const moved = [peer.deletes.length, tour.state];
          tour.remove();
          await until(() => peer.deletes.length);
          return {moved, state: tour.state};
        }"""
    )
    assert result == {"moved": [0, "playing"], "state": "idle"}


def test_controls_have_names_and_the_words_can_be_scrolled_by_keyboard(playing: Opened) -> None:
    page = playing()
    names = page.evaluate(
        """() => ({regions: Array.from(root.querySelectorAll('[role], section'), (e) => e.ariaLabel || e.role),
                   tab: root.querySelector('[part=text]').tabIndex,
                   unnamed: Array.from(root.querySelectorAll('button'))
                     .filter((b) => !b.textContent && !b.ariaLabel).length})"""
    )
    assert names == {"regions": ["Product tour", "Narration", "status", "Shown so far"], "tab": 0, "unnamed": 0}


def test_the_theme_attribute_decides(opened: Opened) -> None:
    colours = []
    for attributes, scheme in (('theme="dark"', "light"), ('theme="light"', "dark"), ("", "dark")):
        page = opened(attributes, color_scheme=scheme)
        colours.append(page.evaluate("getComputedStyle(tour).color"))
    assert colours == ["rgb(241, 237, 230)", "rgb(35, 32, 28)", "rgb(241, 237, 230)"]
