"""A page behind which there is no way but a relay, and the relay is the server's to name."""

from __future__ import annotations

from tests.player.conftest import Opened

_RELAY = """() => {
  window.made = [];
  const Real = RTCPeerConnection;
  // There is no relay here: where one is named, whatever way there is stands for it.
  window.RTCPeerConnection = function (settings) {
    if (settings) made.push(settings);
    return new Real(settings?.iceServers.length ? {} : settings);
  };
  peer.links = '<turn:turn.example>; rel="ice-server"; username="1:v"; credential="c"; credential-type="password"';
  tour.iceTransportPolicy = 'relay';
}"""


def test_the_relay_of_the_answer_is_used_at_once_in_the_same_seat(opened: Opened) -> None:
    """The offer is made before the answer names it, so the first connection cannot stand; nobody waits for that."""
    page = opened()
    page.evaluate(_RELAY)
    result = page.evaluate(
        """async () => {
          tour.play();
          await until(() => peer.of('hello').length);
          peer.bundle(peer.start(), peer.text('told'));
          await until(() => root.querySelector('.word'));
          const posts = peer.posts.map(({url}) => new URL(url).pathname);
          return {made, road: tour.road, sockets: peer.sockets.length, posts};
        }"""
    )
    relay = {"urls": "turn:turn.example", "username": "1:v", "credential": "c"}
    assert result["made"] == [
        {"iceServers": [], "iceTransportPolicy": "relay"},
        {"iceServers": [relay], "iceTransportPolicy": "relay"},
    ]
    assert result["posts"] == ["/tour/whep/demo", "/tour/whep/demo/1"]
    assert (result["road"], result["sockets"]) == ("webrtc", 0)


def test_a_page_that_names_its_own_relay_is_not_hurried(opened: Opened) -> None:
    page = opened()
    page.evaluate(_RELAY)
    result = page.evaluate(
        """async () => {
          tour.iceServers = [{urls: 'turn:own.example', username: 'u', credential: 'c'}];
          tour.play();
          await until(() => peer.of('hello').length);
          await new Promise((done) => setTimeout(done, 1200));
          return [made.length, peer.posts.length];
        }"""
    )
    assert result == [1, 1]
