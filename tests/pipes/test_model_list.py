"""What is wrong with a server before anybody asks it for an answer, against real servers on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import msgspec
import pytest

from multimodal.errors import UsageError
from multimodal.pipes import model_list
from multimodal.pipes.model_list import model_faults
from tests.pipes.model_server import ModelServer, Play, resetting, served
from tests.support import run


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with served() as model:
        yield model


def listed(*names: str) -> bytes:
    return msgspec.json.encode({"object": "list", "data": [{"id": name, "owned_by": "us"} for name in names]})


@pytest.mark.parametrize(
    ("status", "body", "fault"),
    [
        (200, listed("a", "m"), ""),
        (200, listed("m:latest"), ""),
        (200, listed("a", "b"), "has models, and 'm' is not among them: a, b"),
        (200, listed(*"abcdefg"), "has models, and 'm' is not among them: a, b, c, d, e and 2 more"),
        (200, listed("\x1b[2Ja"), "has models, and 'm' is not among them: \\x1b[2Ja"),
        (200, listed(), "has no model"),
        (200, b"<html>", "sent something else than a list of models: <html>"),
        (200, b'{"data":' + b"[" * 100_000, "sent something else than a list of models: "),
        (200, b"x" * 10_000_000, "sent something else than a list of models: xxx"),
        (401, b'{"error":{"message":"who are\x1b you?"}}', "asks for a key (401): "),
        (403, b"", "asks for a key (403): it said nothing"),
        (301, b"", "sends elsewhere (301): it does not say where"),
        (404, b"", "has no list of models (404): see that the URL goes up to /v1"),
        (503, b"loading", "does not list its models (503): loading"),
    ],
)
def test_what_is_wrong_is_told_in_a_line(server: ModelServer, status: int, body: bytes, fault: str) -> None:
    url = server.url("lists", Play(models=body, models_status=status))
    found = run(model_faults([url], "m"))
    assert [each[: len(url) + 1 + len(fault)] for each in found] == ([f"{url} {fault}"] if fault else [])
    assert all(each.isprintable() and len(each) < 600 for each in found)


def test_the_key_goes_with_it_and_stands_in_no_fault(server: ModelServer) -> None:
    play = Play(models=b"who?", models_status=401)
    url = server.url("keyed", play)
    assert run(model_faults([url], "m", "sk-secret")) == [f"{url} refuses the key (401): who?"]
    assert play.listed_to[0]["authorization"] == "Bearer sk-secret"
    with pytest.raises(UsageError, match="api_key holds"):
        run(model_faults([url], "m", "sk-secret\n"))


def test_all_are_asked_at_once_and_none_is_waited_for_long(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_list, "LIST_LIMIT", 0.5)

    async def scenario() -> None:
        async with resetting(b"{") as resets:
            slow = [server.url(f"slow{number}", Play(before=20.0)) for number in range(3)]
            good = server.url("good", Play())
            async with asyncio.timeout(10):
                faults = await model_faults([*slow, resets, good, "http://127.0.0.1:1/v1"], "m")
            assert faults[:3] == [f"{url} gave no answer within 0.5 s" for url in slow]
            assert [fault.split(": ")[0] for fault in faults[3:]] == [
                f"{resets} cannot be reached",
                "http://127.0.0.1:1/v1 cannot be reached",
            ]

    run(scenario())
