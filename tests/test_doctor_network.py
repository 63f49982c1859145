"""`multimodal doctor --network`: every fault is a real one, put where it would be found; real coturn, real sockets."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import time
from collections.abc import Iterator
from email.utils import formatdate

import pytest

from multimodal import doctor_network_here as here
from multimodal import doctor_network_system as system
from multimodal.cli import main
from multimodal.doctor_network import NetworkReport, examine_network, network_text
from multimodal.doctor_network_finding import Finding, findings_text
from multimodal.doctor_network_formats import examine_formats, examine_versions
from multimodal.doctor_network_http import (
    CLOCK_LIMIT,
    Reply,
    examine_clock,
    examine_server,
    parse_place,
    refusal,
)
from multimodal.doctor_network_ice import Credentials, parse_ice, shared_secret, told
from multimodal.doctor_network_stun import compare_mappings, examine_stun
from multimodal.doctor_network_turn import examine_turn
from multimodal.doctor_network_verdicts import judge_pongs, judge_sse, no_udp, refusal_advice, upgrade_advice
from multimodal.errors import UsageError
from multimodal.serving.turn import Turn
from tests.coturn import MISSING, SECRET, Coturn, coturn
from tests.support import run

needs_coturn = pytest.mark.skipif(shutil.which("turnserver") is None, reason=MISSING)


def states(findings: list[Finding]) -> dict[str, str]:
    return {finding.name: finding.state for finding in findings}


# ---- this machine


def test_alone_it_looks_at_this_machine_and_finds_nothing_broken() -> None:
    report = run(examine_network(ports=(0,)))
    found = states(report.here)
    assert {"addresses", "IPv4", "IPv6", "UDP 127.0.0.1", "port 0", "WebP", "JPEG", "AVIF", "versions"} <= set(found)
    assert report.ok, network_text(report)
    assert report.ice == report.server == []
    for finding in report.here:
        assert finding.came
        assert finding.tried
        assert finding.advice or finding.state in {"good", "skipped"}, finding


def test_addresses_say_who_can_reach_them() -> None:
    found = {"lo": ["127.0.0.1"], "eth0": ["10.1.2.3", "fe80::1"], "wwan0": ["100.64.1.1"]}
    assert "10.1.2.3 (private)" in here.examine_addresses(found, ["10.1.2.3"]).came
    assert "100.64.1.1 (carrier NAT)" in here.examine_addresses(found, []).came
    assert "TURN" in here.examine_addresses(found, ["10.1.2.3"]).advice
    assert "only viewers on this machine" in here.examine_addresses(found, ["127.0.0.1"]).advice
    assert here.examine_addresses(found, []).state == "broken"
    assert here.examine_addresses({"eth0": ["198.41.0.4"]}, ["198.41.0.4"]).state == "good"


def test_an_address_that_is_not_ours_is_no_road_for_udp() -> None:
    (found,) = here.examine_udp(["198.51.100.7"], limit=0.1)
    assert found.state == "broken"
    assert "cannot be bound to" in found.came
    assert "firewall" not in found.advice


def test_an_address_to_bind_to_is_this_machines_or_its_own_are_named() -> None:
    found = {"lo": ["127.0.0.1", "::1"], "eth0": ["10.1.2.3"]}
    here.check_own(found, ["127.0.0.1", "127.9.9.9"])  # all of 127.0.0.0/8 is, whatever the interface lists
    with pytest.raises(UsageError, match=r"^198\.51\.100\.7 is none of this machine's addresses; it has: ") as caught:
        here.check_own(found, ["127.0.0.1", "198.51.100.7"])
    assert str(caught.value).endswith("it has: lo 127.0.0.1, ::1; eth0 10.1.2.3")
    with pytest.raises(UsageError, match=r"^fe80::1 is no.*; it has: none$"):
        here.check_own({}, ["fe80::1"])


def test_a_send_that_is_refused_is_the_firewalls(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*args: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(here, "_round", refused)
    (found,) = here.examine_udp(["127.0.0.1"])
    assert "the kernel refused: Operation not permitted" in found.came
    assert "firewall" in found.advice


def test_datagrams_that_vanish_on_this_machine_are_told_by_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    real = here._round
    monkeypatch.setattr(here, "_round", lambda *a: None if len(a[2]) > 1000 else real(*a))
    (found,) = here.examine_udp(["127.0.0.1"])
    assert found.state == "broken"
    assert "1,232 bytes did not arrive" in found.came


def test_a_small_mtu_is_named_with_what_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(here, "_mtu", {"eth0": 1500, "tun0": 1200}.get)
    found = here.examine_mtu(["eth0", "tun0", "gone0"])
    assert found.state == "note"
    assert "fragments" in found.came
    assert "tun0 mtu 1280" in found.advice
    assert here.examine_mtu(["eth0"]).state == "good"
    assert here.examine_mtu([]).state == "skipped"


def test_a_port_that_is_taken_is_named_with_the_program_that_has_it() -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen(1)
        found = system.examine_port(holder.getsockname()[1])
        assert found.state == "note"
        assert f"process {os.getpid()}" in found.came
        assert "--port" in found.advice
    assert system.examine_port(holder_port := _free_port()).came == "free", holder_port


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_a_proxy_of_the_shell_is_told_without_its_password() -> None:
    (found,) = system.examine_proxies({"HTTPS_PROXY": "http://me:secret@proxy:3128", "no_proxy": "localhost"})
    assert "https_proxy" in found.came
    assert "secret" not in str(found)
    assert system.examine_proxies({"HTTPS_PROXY": ""}) == []


def test_a_clock_in_the_past_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 0.0)
    found = system.clock_of_the_kernel()
    assert found.state == "broken"
    assert "1970-01-01" in found.came


def test_a_format_that_cannot_be_made_says_what_the_library_said(monkeypatch: pytest.MonkeyPatch) -> None:
    from PIL import Image

    real = Image.Image.save

    def save(image: Image.Image, target: object, format: str | None = None, **options: object) -> None:
        if format == "AVIF":
            raise OSError("encoder avif not available")
        real(image, target, format, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Image.Image, "save", save)
    found = {finding.name: finding for finding in examine_formats()}
    assert found["AVIF"].state == "note", "live pictures do without"
    assert "encoder avif not available" in found["AVIF"].came
    assert "pillow" in found["AVIF"].advice
    assert found["WebP"].state == "good"


def test_versions_name_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multimodal.doctor_network_formats.LIBRARIES", ("aiortc", "no-such-library"))
    found = examine_versions()
    assert found.state == "broken"
    assert found.came.startswith("no-such-library not installed")


# ---- STUN and TURN


@pytest.fixture(scope="module")
def relay() -> Iterator[Coturn]:
    with coturn() as running:
        yield running


def credentials(secret: str = SECRET) -> Credentials:
    return shared_secret(secret, now=time.time())


@needs_coturn
def test_a_stun_server_that_answers_tells_our_address(relay: Coturn) -> None:
    found = run(examine_stun(parse_ice(f"stun:127.0.0.1:{relay.port}"), ["127.0.0.1"]))
    assert found.state == "good"
    assert "no NAT" in found.came
    behind = run(examine_stun(parse_ice(f"stun:127.0.0.1:{relay.port}"), ["10.0.0.1"]))
    assert "a NAT is between" in behind.came


def test_a_black_hole_for_udp_and_a_closed_port_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multimodal.doctor_network_stun.STUN_LIMIT", 1.0)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as hole:
        hole.bind(("127.0.0.1", 0))
        silent = run(examine_stun(parse_ice(f"stun:127.0.0.1:{hole.getsockname()[1]}"), []))
    assert silent.state == "broken"
    assert "no answer" in silent.came
    assert "5 s" in silent.advice
    closed = run(examine_stun(parse_ice(f"stun:127.0.0.1:{_free_port()}"), []))
    assert closed.state == "broken"
    assert "refused" in closed.came


@needs_coturn
def test_a_server_that_answers_by_tcp_alone_shows_that_udp_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multimodal.doctor_network_stun.STUN_LIMIT", 2.0)
    monkeypatch.setattr("multimodal.doctor_network_turn.TURN_LIMIT", 2.0)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as hole:
        hole.bind(("127.0.0.1", 0))
        with coturn(port=hole.getsockname()[1], extra=["no-udp"]) as running:
            stun = run(examine_stun(parse_ice(f"stun:127.0.0.1:{running.port}"), []))
            turn = run(examine_turn(parse_ice(running.url("udp")), credentials()))
            by_tcp = run(examine_turn(parse_ice(running.url("tcp")), credentials()))
    for found in (stun, turn):
        assert found.state == "broken"
        assert "UDP is dropped on the way" in found.came
        assert "?transport=tcp" in found.advice
    assert by_tcp.state == "good"


@needs_coturn
@pytest.mark.parametrize("transport", ["udp", "tcp"])
def test_a_relay_that_works_has_carried_a_full_packet(relay: Coturn, transport: str) -> None:
    before = relay.allocations
    found = run(examine_turn(parse_ice(relay.url(transport)), credentials()))
    assert found.state == "good", found
    assert "the bytes came through" in found.came
    assert relay.allocations == before + 2


@needs_coturn
def test_wrong_and_expired_credentials_are_refused_and_the_clock_is_named(relay: Coturn) -> None:
    wrong = run(examine_turn(parse_ice(relay.url()), credentials("another secret")))
    late = run(examine_turn(parse_ice(relay.url("tcp")), shared_secret(SECRET, now=time.time() - 7200)))
    for found in (wrong, late):
        assert found.state == "broken"
        assert "401" in found.came
        assert "static-auth-secret" in found.advice
        assert "clocks" in found.advice
        assert "another secret" not in str(found)
    none = run(examine_turn(parse_ice(relay.url()), None))
    assert none.state == "note"
    assert "--turn-secret-env" in none.advice


@needs_coturn
def test_a_quota_that_is_used_up_is_told_as_such() -> None:
    with coturn(extra=["user-quota=1"]) as running:
        found = run(examine_turn(parse_ice(running.url()), credentials()))
    assert found.state == "broken"
    assert "quota" in found.came
    assert "user-quota" in found.advice


def test_a_relay_that_is_silent_or_not_there_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multimodal.doctor_network_turn.TURN_LIMIT", 1.0)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as hole:
        hole.bind(("127.0.0.1", 0))
        silent = run(examine_turn(parse_ice(f"turn:127.0.0.1:{hole.getsockname()[1]}"), credentials()))
    closed = run(examine_turn(parse_ice(f"turn:127.0.0.1:{_free_port()}?transport=tcp"), credentials()))
    unknown = run(examine_turn(parse_ice("turn:nowhere.invalid"), credentials()))
    assert [found.state for found in (silent, closed, unknown)] == ["broken"] * 3
    assert "no answer" in silent.came
    assert "nothing listens" in closed.came
    assert "name" in unknown.came


@needs_coturn
def test_two_stun_servers_show_what_a_nat_does(relay: Coturn) -> None:
    with coturn() as other:
        both = [parse_ice(f"stun:127.0.0.1:{port}") for port in (relay.port, other.port)]
        found = run(compare_mappings(both, ["127.0.0.1"]))
    assert found.state == "good"
    assert "no NAT" in found.came


@pytest.mark.parametrize(
    ("url", "host", "port", "transport"),
    [
        ("stun:stun.example.org", "stun.example.org", 3478, "udp"),
        ("turn:10.0.0.1:3479?transport=tcp", "10.0.0.1", 3479, "tcp"),
        ("turns:turn.example.org", "turn.example.org", 5349, "tcp"),
    ],
)
def test_ice_urls_are_read(url: str, host: str, port: int, transport: str) -> None:
    found = parse_ice(url)
    assert (found.host, found.port, found.transport) == (host, port, transport)


@pytest.mark.parametrize(
    "url", ["", "http://x", "turn:", "turn://x", "stun:[::1]", "turn:x:0", "turn:x:99999", "turns:x?transport=udp"]
)
def test_what_is_no_ice_url_is_refused_in_words(url: str) -> None:
    with pytest.raises(UsageError, match=r"names no ICE server|is no port"):
        parse_ice(url)


def test_servers_that_viewers_are_told_of_are_read_as_they_are_written() -> None:
    links = Turn(["turn:a.example", "turns:b.example?transport=tcp", "stun:c.example"], "s").links(user="v", now=1000.0)
    found = told(", ".join(['<https://x.example>; rel="next"', *links]))
    assert [url for url, _ in found] == ["turn:a.example", "turns:b.example?transport=tcp", "stun:c.example"]
    assert found[0][1] is not None
    assert found[0][1].expires == 1600.0
    assert found[2][1] is None
    assert found[0][1].password not in repr(found[0][1])
    assert told("") == []


# ---- the server, judged by what it said


def answer(status: int = 204, sent: float = 0.0, took: float = 0.1, body: bytes = b"", **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status, {"accept-post": "application/sdp", **named}, body, sent, took)


PLACE = parse_place("http://shop.example:8080/tour/whep/demo")


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (answer(301, location="https://shop.example/"), "https://shop.example/"),
        (answer(502), "does not reach the server behind it"),
        (answer(404), "takes no offers"),
        (answer(200, accept_post="text/plain"), "takes no offers"),
    ],
)
def test_an_answer_that_is_not_a_tours_is_broken(reply: Reply, says: str) -> None:
    found = examine_server(reply, PLACE)
    assert found.state == "broken"
    assert says in found.came
    assert found.advice


def test_a_proxy_that_names_itself_is_named() -> None:
    assert "1.1 squid" in examine_server(answer(via="1.1 squid"), PLACE).came


@pytest.mark.parametrize(("ahead", "state"), [(0.0, "good"), (5.0, "good"), (3600.0, "broken"), (-3600.0, "broken")])
def test_clocks_are_compared_with_what_a_date_can_tell(ahead: float, state: str) -> None:
    now = 1_800_000_000.3
    found = examine_clock(answer(sent=now, date=formatdate(now + ahead, usegmt=True)))
    assert found.state == state
    if state == "broken":
        assert re.search(rf"3,(?:599|60[01]) s {'ahead of' if ahead > 0 else 'behind'} this machine", found.came)
        assert "chronyc" in found.advice


def test_a_slow_answer_makes_a_clock_unsure_and_not_wrong() -> None:
    now = 1_800_000_000.0
    date = formatdate(now + CLOCK_LIMIT + 5, usegmt=True)
    assert examine_clock(answer(sent=now, took=20.0, date=date)).state == "good"
    assert examine_clock(answer(date="yesterday")).state == "skipped"
    assert examine_clock(answer()).state == "skipped"


def test_a_refusal_is_told_in_the_servers_own_words_and_spoilt_ones_are_not_trusted() -> None:
    own = b'{"error":{"code":"token_missing","message":"no token","hint":"send one"}}'
    assert refusal(answer(401, body=own)) == "401 token_missing: no token"
    for body in (b"", b"<html>", b"[]", b'{"error":7}', b"[" * 5000):
        assert refusal(answer(502, body=body, server="nginx")) == "502 nginx"


def test_places_are_read_and_what_is_none_is_refused() -> None:
    place = parse_place("https://shop.example/a/whep/b/c d")
    assert place.url("ws", "seat") == "wss://shop.example/a/ws/b/c%20d/seat"
    assert parse_place("http://[::1]:8/whep/x").url("sse") == "http://[::1]:8/sse/x"
    for url in ("", "shop.example/whep/demo", "http://shop.example/", "http://x:99999/whep/d", "http://u:p@x/whep/d"):
        with pytest.raises(UsageError):
            parse_place(url)


STREAM = answer(200, content_type="text/event-stream")


def test_a_stream_that_is_held_back_is_told_from_one_that_is_not() -> None:
    steady = [(10.0 + n, 5000.0 + n * 1000) for n in range(4)]
    assert judge_sse("SSE", "", STREAM, steady).state == "good"
    # All at once, as a proxy lets them go.
    burst = judge_sse("SSE", "", STREAM, [(13.0, sent) for _, sent in steady])
    assert burst.state == "broken"
    assert "3.0 s later" in burst.came
    assert "proxy_buffering off" in burst.advice
    assert judge_sse("SSE", "", STREAM, []).state == "broken"
    assert judge_sse("SSE", "", None, []).state == "broken"
    assert judge_sse("SSE", "", answer(200, content_type="text/html"), steady).state == "broken"
    packed = answer(200, content_type="text/event-stream", content_encoding="gzip")
    assert judge_sse("SSE", "", packed, steady).state == "note"


def test_pongs_show_a_clock_that_stands_still() -> None:
    assert judge_pongs("WebSocket", "", 0.01, [(0.0, 0.1, 7000.0), (1.0, 1.1, 8000.0)]).state == "good"
    still = judge_pongs("WebSocket", "", 0.01, [(0.0, 0.1, 7000.0), (1.0, 1.1, 7100.0)])
    assert still.state == "note"
    assert "0.10 s there" in still.came


def test_each_cause_has_its_own_next_step() -> None:
    loopback = "a=candidate:1 1 udp 1 127.0.0.1 5000 typ host\r\n"
    assert "bind_addresses" in no_udp(loopback)
    assert "private" in no_udp(loopback + "a=candidate:2 1 udp 1 10.0.0.1 5000 typ host\r\n")
    assert "let the server's UDP ports in" in no_udp("a=candidate:2 1 udp 1 198.41.0.4 5000 typ host\r\n")
    told = {refusal_advice(status, False) for status in (401, 404, 429, 413, 500)}
    assert len(told) == 5
    assert refusal_advice(401, True) != refusal_advice(401, False)
    assert "proxy_set_header Upgrade" in upgrade_advice(426, False)
    assert "--join-token-env" in upgrade_advice(401, False)


# ---- the command


def test_the_report_says_what_is_broken_in_its_last_lines_and_in_json() -> None:
    finding = Finding("STUN", "broken", "asked", "nothing came", "ask another")
    report = NetworkReport([Finding("MTU", "good", "looked", "1,500")], [finding])
    assert not report.ok
    assert network_text(report).splitlines()[-1] == "BROKEN: STUN: nothing came. Next: ask another"
    assert findings_text([finding])[-1].endswith("next:  ask another")
    plain = json.loads(json.dumps(report.as_dict()))
    assert plain["ok"] is False
    assert plain["ice"][0] == {
        "name": "STUN",
        "state": "broken",
        "tried": "asked",
        "came": "nothing came",
        "advice": "ask another",
    }


def test_the_command_exits_with_1_when_something_is_broken(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--network", "--port", "0", "--ice", "stun:nowhere.invalid", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["ok"] is False
    assert report["ice"][0]["state"] == "broken"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--ice", "stun:x"], "add --network"),
        (["--network", "--model", "x"], "run it twice"),
        (["--network", "--origin", "https://x"], "name it with --url"),
        (["--network", "--turn-user", "x"], "belong together"),
        (["--network", "--turn-secret-env", "NO_SUCH_VARIABLE"], "there is no such environment variable"),
        (["--network", "--ice", "x"], "names no ICE server"),
        (["--network", "--url", "x"], "no tour's address"),
    ],
)
def test_wrong_options_are_refused_in_words(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", *words]) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--port", "99999"], "--port 99999 is no port"),
        (["--port", "-1"], "--port -1 is no port"),
        (["--bind", "foo"], "--bind foo is no IP address"),
        (["--bind", "198.51.100.7"], "198.51.100.7 is none of this machine's addresses; it has: "),
    ],
)
def test_what_is_no_port_or_address_is_said_in_one_line(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", "--network", *words]) == 2
    printed = capsys.readouterr()
    assert said in printed.err
    assert "Traceback" not in printed.err
