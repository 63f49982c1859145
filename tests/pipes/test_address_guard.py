"""What may not be fetched (N1-N5): every form in which an address or a URL has been disguised."""

from __future__ import annotations

import asyncio
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from multimodal.errors import UsageError
from multimodal.pipes.address_guard import AddressGuard
from multimodal.pipes.intake import PictureRefused
from multimodal.pipes.remote_pictures import RemotePictures
from tests.support import run

GUARD = AddressGuard()

ADDRESSES = {
    "loopback": "127.0.0.1",
    "all of the loopback net": "127.8.9.10",
    "this host": "0.0.0.0",
    "this network": "0.1.2.3",
    "private A": "10.0.0.1",
    "private B": "172.16.0.1",
    "the end of private B": "172.31.255.255",
    "private C": "192.168.1.1",
    "carrier-grade NAT": "100.64.0.1",
    "link-local": "169.254.1.1",
    "metadata of most clouds": "169.254.169.254",
    "metadata of containers": "169.254.170.2",
    "metadata at Alibaba": "100.100.100.200",
    "metadata at Oracle": "192.0.0.192",
    "the host at Azure, a public address": "168.63.129.16",
    "protocol assignments": "192.0.0.1",
    "documentation 1": "192.0.2.1",
    "documentation 2": "198.51.100.1",
    "documentation 3": "203.0.113.1",
    "benchmarking": "198.18.0.1",
    "multicast": "224.0.0.1",
    "more multicast": "239.255.255.250",
    "reserved": "240.0.0.1",
    "broadcast": "255.255.255.255",
    "loopback, IPv6": "::1",
    "unspecified, IPv6": "::",
    "link-local, IPv6": "fe80::1",
    "link-local with an interface": "fe80::1%eth0",
    "unique local": "fc00::1",
    "more unique local": "fd12:3456:789a::1",
    "metadata, IPv6": "fd00:ec2::254",
    "site-local": "fec0::1",
    "multicast, IPv6": "ff02::1",
    "documentation, IPv6": "2001:db8::1",
    "mapped loopback": "::ffff:127.0.0.1",
    "mapped private": "::ffff:10.0.0.1",
    "mapped metadata": "::ffff:a9fe:a9fe",
    "compatible loopback": "::127.0.0.1",
    "NAT64 of a private one": "64:ff9b::10.0.0.1",
    "NAT64 of the metadata service": "64:ff9b::169.254.169.254",
    "local NAT64": "64:ff9b:1::10.0.0.1",
    "6to4 of a private one": "2002:a00:1::1",
    "6to4 of loopback": "2002:7f00:1::",
    "Teredo": "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "discard": "100::1",
    "no address at all": "localhost",
}


@pytest.mark.parametrize("what", ADDRESSES)
def test_an_address_that_is_not_public_is_refused(what: str) -> None:
    assert GUARD.check_address(ADDRESSES[what])


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "93.184.216.34", "2606:4700:4700::1111", "::ffff:1.1.1.1", "172.32.0.1"]
)
def test_a_public_address_is_not(address: str) -> None:
    assert GUARD.check_address(address) == ""


URLS = {
    "file:///etc/passwd": "scheme",
    "ftp://example.com/a.jpg": "scheme",
    "gopher://example.com/_x": "scheme",
    "data:image/png;base64,AAAA": "scheme",
    "javascript:alert(1)": "scheme",
    "//example.com/a.jpg": "scheme",
    "a.jpg": "scheme",
    "": "scheme",
    "http://": "no host",
    "http:///a.jpg": "no host",
    "http://shop.example@127.0.0.1/a.jpg": "user name",
    "http://user:word@shop.example/a.jpg": "user name",
    "http://shop.example:22/a.jpg": "port is 22",
    "http://shop.example:6379/a.jpg": "port is 6379",
    "https://shop.example:99999/": "no URL",
    "http://shop.example/a b.jpg": "white space",
    "http://shop.example/a\r\nHost: inner/": "white space",
    "http://[::1/a.jpg": "no URL",
}


@pytest.mark.parametrize("url", URLS)
def test_a_url_that_is_none_of_the_webs_is_refused(url: str) -> None:
    assert URLS[url] in GUARD.check_url(url)


@pytest.mark.parametrize(
    "url", ["http://shop.example/a.jpg", "https://shop.example:443/a?b=c#d", "HTTP://SHOP.EXAMPLE"]
)
def test_a_plain_url_is_not(url: str) -> None:
    assert GUARD.check_url(url) == ""


HOSTS = [
    *("127.0.0.1", "127.1", "127.0.1", "0", "0.0.0.0", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "0177.1"),
    *("localhost", "LOCALHOST", "localhost.", "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0::1]"),
    *(
        "①②⑦.⓪.⓪.①",
        "１２７.0.0.1",
        "127。0。0。1",
        "169.254.169.254",
        "2852039166",
        "0xa9fea9fe",
        "10.0.0.1",
        "[fe80::1]",
    ),
]
"""Ways to write an address that a look-up understands, and most lists of forbidden names do not."""


@pytest.mark.parametrize("host", HOSTS)
def test_however_it_is_written_it_is_judged_where_it_leads(host: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        remote = RemotePictures(tmp_path, retries=0, connect=1.0)
        result = await remote.fetch(f"http://{host}/a.jpg")
        assert isinstance(result, PictureRefused)
        assert result.reason in {"refused_address", "unreachable"}, str(result)
        # What no resolver takes for an address at all leads nowhere.
        assert result.reason == "refused_address" or "no address for" in str(result)
        remote.close()

    run(scenario())


def test_a_name_that_has_a_public_and_an_inner_address_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[str] = []

    def found(host: str, port: int, **options: Any) -> list[Any]:
        asked.append(host)
        return [(2, 1, 6, "", (address, port)) for address in ("93.184.216.34", "10.0.0.1")]

    monkeypatch.setattr(socket, "getaddrinfo", found)

    async def scenario() -> None:
        remote = RemotePictures(tmp_path, retries=2)
        result = await remote.fetch("https://shop.example/a.jpg")
        assert isinstance(result, PictureRefused)
        assert result.reason == "refused_address"
        assert "10.0.0.1" in str(result)
        remote.close()

    monkeypatch.setattr(socket, "create_connection", lambda *_, **__: pytest.fail("it connected"))
    run(scenario())
    assert asked == ["shop.example"], "looked up once, and a verdict is not tried again"


def test_what_was_judged_is_what_is_connected_to(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A name that is public when it is judged and an inner one a moment later (DNS rebinding)."""
    answers = iter(["93.184.216.34", "127.0.0.1", "127.0.0.1"])
    connected: list[Any] = []

    def connect(address: Any, *_: Any, **__: Any) -> Any:
        connected.append(address)
        raise ConnectionRefusedError("nobody here")

    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [(2, 1, 6, "", (next(answers), 80))])
    monkeypatch.setattr(socket, "create_connection", connect)

    async def scenario() -> None:
        remote = RemotePictures(tmp_path, retries=0)
        result = await remote.fetch("http://shop.example/a.jpg")
        assert isinstance(result, PictureRefused)
        assert result.reason == "unreachable"
        remote.close()

    run(scenario())
    assert connected == [("93.184.216.34", 80)]


def test_a_network_of_ones_own_may_be_allowed() -> None:
    guard = AddressGuard(allow=["10.1.0.0/16", "::1/128"], ports=[8080])
    assert guard.check_address("10.1.2.3") == guard.check_address("::1") == ""
    assert guard.check_address("10.2.0.1")
    assert guard.check_address("::ffff:10.2.0.1")
    assert guard.check_url("http://shop/a:8080") != ""
    assert guard.check_url("http://shop:8080/a") == ""


@pytest.mark.parametrize(
    "options", [{"allow": ["10.1.2.3/8"]}, {"allow": ["inner"]}, {"ports": [0]}, {"ports": [70000]}]
)
def test_what_is_allowed_is_checked(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        AddressGuard(**options)


def test_waiting_for_a_refusal_leaves_no_thread(tmp_path: Path) -> None:
    async def scenario() -> None:
        remote = RemotePictures(tmp_path)
        results = await asyncio.gather(*(remote.fetch(f"http://127.0.0.{number}/") for number in range(20)))
        assert all(isinstance(result, PictureRefused) for result in results)
        await remote.settle()
        remote.close()

    run(scenario())
    assert not [thread for thread in threading.enumerate() if thread.name == "multimodal-fetch"]
