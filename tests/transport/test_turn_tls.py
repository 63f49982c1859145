"""`turns:`, TURN over TLS, at a real coturn whose certificate only itself has signed: trusted, and not."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Iterator

import pytest

from multimodal.browser import launch, open_page
from multimodal.doctor_network_ice import Credentials, parse_ice
from multimodal.doctor_network_turn import examine_turn
from multimodal.errors import ChannelClosedError
from multimodal.pipes.script import ScriptImagePipe, ScriptTextPipe
from multimodal.serving.turn import turn_credentials
from multimodal.stream import MultiModalStream
from multimodal.transport.session import ViewerSession
from multimodal.transport.viewer import Seen, Viewer
from multimodal.transport.webrtc import IceServer, WebRTCLink
from tests.coturn import MISSING, SECRET, Coturn, coturn
from tests.support import run
from tests.transport.events import picture
from tests.transport.leaks import nothing_left

pytestmark = pytest.mark.skipif(shutil.which("turnserver") is None, reason=MISSING)

WORDS = [f"w{number} " for number in range(12)]
HERE = ["127.0.0.1"]


@pytest.fixture(scope="module")
def relay() -> Iterator[Coturn]:
    with coturn(tls=True) as running:
        yield running


async def watched(relay: Coturn, connect_limit: float) -> tuple[Seen, str]:
    """A tour over the relay alone, by TLS; and what the viewer's offer said."""
    made = turn_credentials(SECRET, user="viewer", now=time.time())
    server = IceServer(relay.url("tls"), username=made.username, credential=made.password)
    client, offer = await WebRTCLink.offering(ice_servers=[server], relay_only=True, connect_limit=connect_limit)
    try:
        answering, answer = await WebRTCLink.answering(offer, bind_addresses=HERE, connect_limit=connect_limit)
        pictures = ScriptImagePipe([picture("p0", 20_000)])
        # Its end waits for the picture as long as a busy machine takes for it.
        stream = MultiModalStream(ScriptTextPipe(WORDS, gap=0.01), pictures, swap_wait=90.0)
        async with asyncio.TaskGroup() as group:
            group.create_task(ViewerSession(stream, answering).run())
            await client.accept(answer)
            watching = group.create_task(Viewer(client).watch())
        return watching.result(), offer
    finally:
        await client.aclose()


def test_a_tour_goes_through_it(relay: Coturn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(relay.certificate))

    async def scenario() -> None:
        async with nothing_left():
            seen, offer = await watched(relay, 10.0)
            assert (seen.ended, seen.text) == ("end", "".join(WORDS))
            assert seen.pictures.keys() == {"p0"}
            kinds = {line.split(" typ ")[1].split()[0] for line in offer.splitlines() if " typ " in line}
            assert kinds == {"relay"}

    run(scenario())
    assert relay.allocations


def test_a_certificate_that_nobody_vouches_for_is_no_way_through(
    relay: Coturn, caplog: pytest.LogCaptureFixture
) -> None:
    why = f"the TURN server 127.0.0.1 port {relay.tls_port} gave no address; `multimodal doctor --network"

    async def scenario() -> None:
        async with nothing_left():
            with pytest.raises(ChannelClosedError, match=why):
                await watched(relay, 10.0)

    before = relay.allocations
    run(scenario())
    assert relay.allocations == before
    assert why in caplog.text
    assert SECRET not in caplog.text


@pytest.mark.parametrize("trusted", [True, False])
def test_doctor_tells_which(relay: Coturn, trusted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(relay.certificate))
    made = turn_credentials(SECRET, user="doctor", now=time.time())
    found = run(examine_turn(parse_ice(relay.url("tls")), Credentials(made.username, made.password)))
    assert "by TLS" in found.tried
    if trusted:
        assert found.state == "good", found
        assert "the bytes came through" in found.came
    else:
        assert found.state == "broken"
        assert "TLS failed" in found.came
        assert "certificate" in found.advice


_GATHERED = """async ([urls, username, credential]) => {
  const pc = new RTCPeerConnection({iceServers: [{urls, username, credential}], iceTransportPolicy: 'relay'});
  const kinds = [], errors = [];
  pc.onicecandidate = ({candidate}) => candidate?.type && kinds.push(candidate.type);
  pc.onicecandidateerror = ({errorCode}) => errors.push(errorCode);
  pc.createDataChannel('x');
  const over = new Promise((done) => {
    pc.onicegatheringstatechange = () => pc.iceGatheringState === 'complete' && done();
  });
  await pc.setLocalDescription();
  await over;
  pc.close();
  return {kinds, errors};
}"""


@pytest.mark.browser
@pytest.mark.parametrize("trusted", [True, False])
def test_a_browser_takes_it_where_it_trusts_the_certificate(relay: Coturn, trusted: bool) -> None:
    async def scenario() -> dict[str, list[object]]:
        made = turn_credentials(SECRET, user="browser", now=time.time())
        arguments = ["--ignore-certificate-errors"] if trusted else []
        async with launch(args=arguments) as browser, open_page(browser) as page:
            await page.goto("about:blank")
            found: dict[str, list[object]] = await page.evaluate(
                _GATHERED, [relay.url("tls"), made.username, made.password]
            )
            return found

    # 701: it could not be reached (W3C WebRTC, RTCPeerConnectionIceErrorEvent).
    assert run(scenario()) == {"kinds": ["relay"] if trusted else [], "errors": [] if trusted else [701]}
