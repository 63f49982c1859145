"""A narrator at URLs: which are taken, that their key comes out of the environment, and that viewers share them."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from multimodal import check
from multimodal.check import serving
from multimodal.cli import main
from multimodal.demos.product_tour.narrators import Narrator, Voice, model_voice
from multimodal.errors import UsageError
from multimodal.pipes.upstreams import EJECT_AFTER
from multimodal.values import Product, Token
from tests.pipes.model_server import Play, served, sse
from tests.support import run

A, B = "http://127.0.0.1:1/v1", "https://b.example/v1"
PRODUCTS = [Product("kettle", "Halo Kettle"), Product("mug", "Fern Mug")]


def voice_of(urls: str, api_key_env: str = "") -> Voice:
    return model_voice(Narrator(urls, "m", guard="off", api_key_env=api_key_env), PRODUCTS, shop="S", language="en")


async def said(voice: Voice) -> str:
    return "".join([token.text if isinstance(token, Token) else token async for token in voice()])


@pytest.mark.parametrize("name", [A, f"{A},{B}", f" {A} , {B} "])
def test_one_url_or_several_are_a_remote_narrator(name: str) -> None:
    narrator = Narrator(name, "m")
    assert narrator.remote
    assert [server.url for server in narrator.servers().servers] == [url.strip() for url in name.split(",")]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (f"{A},", "nothing at one side of a comma"),
        (f",{A}", "nothing at one side of a comma"),
        (f"{A},,{B}", "nothing at one side of a comma"),
        (f"{A},{A}/", "several different ones"),
        (f"{A},extractive", "'extractive' is no http"),
        (f"{A},ftp://b/v1", "'ftp://b/v1' is no http"),
        ("http://127.0.0.1:99999/v1", "is no http"),
        ("http://[::1/v1", "is no http"),
        (f"{A},https://me:secret@b/v1", "a user or a password, .* or --api-key-env NAME"),
        (",https://me:secret@b/v1", "nothing at one side of a comma"),
    ],
)
def test_what_is_no_list_of_urls_is_told(name: str, words: str) -> None:
    with pytest.raises(UsageError, match=f"^--narrator.*{words}") as caught:
        Narrator(name)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "--api-key-env names an environment variable that is not set; .*never the key"),
        ("", "--api-key-env SHOP_KEY: the variable is empty"),
        ("sk-secret\n", "--api-key-env SHOP_KEY: the variable holds something that an HTTP header cannot carry"),
        ("sk-schl\u00fcssel", "cannot carry"),
    ],
)
def test_a_key_that_is_not_there_or_is_none_is_told_before_anything_is_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], value: str | None, words: str
) -> None:
    monkeypatch.delenv("SHOP_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("SHOP_KEY", value)
    with pytest.raises(UsageError, match=words):
        Narrator(A, "m", api_key_env="SHOP_KEY")
    for more in ([], ["--check"]):
        assert main(["tour", "--narrator", A, "--model", "m", "--api-key-env", "SHOP_KEY", *more]) == 2
        told = capsys.readouterr()
        assert "--api-key-env" in told.err
        assert "sk-" not in told.err + told.out


def test_a_key_that_is_given_as_a_name_is_not_repeated() -> None:
    for narrator in ((A, "m"), ("local", "")):
        with pytest.raises(UsageError, match="--api-key-env") as caught:
            Narrator(*narrator, api_key_env="sk_secret")
        assert "secret" not in str(caught.value)


@pytest.mark.parametrize("name", ["extractive", "script", "local"])
def test_a_key_without_a_server_is_told(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("SHOP_KEY", "sk-secret")
    with pytest.raises(UsageError, match=f"for a narrator at a URL; --narrator {name} asks no server"):
        Narrator(name, api_key_env="SHOP_KEY")


def test_the_key_is_sent_and_stands_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_KEY", "sk-secret")
    with served() as server:
        play = Play([sse("Here it is.")])
        url = server.url("keyed", play)
        run(said(voice_of(url, api_key_env="SHOP_KEY")))
        run(said(voice_of(url)))
        assert [sent.get("authorization") for sent in play.sent_to] == ["Bearer sk-secret"] * 2 + [None] * 2
    assert "secret" not in repr(Narrator(A, "m", api_key_env="SHOP_KEY"))


def test_viewers_share_what_is_known_of_the_servers() -> None:
    with served() as server:
        plays = {name: Play([sse("Here it is.")], before=0.2) for name in ("left", "right")}
        voice = voice_of(",".join(server.url(name, play) for name, play in plays.items()))

        async def together() -> None:
            async with asyncio.TaskGroup() as viewers:
                for _ in range(4):
                    viewers.create_task(said(voice))

        run(together())
        assert [len(play.asked) for play in plays.values()] == [4, 4]
        wrong = Play([b"no such model"], status=404, headers={})
        voice = voice_of(f"{server.url('wrong', wrong)},{server.url('left', Play([sse('Here it is.')]))}")
        for _ in range(4):
            assert run(said(voice)) == "Here it is.\n\nHere it is."
        assert len(wrong.asked) == EJECT_AFTER


def test_what_is_wrong_with_a_server_is_told_at_the_start_and_the_tour_is_served() -> None:
    async def scenario(url: str) -> str:
        told: list[bytes] = []
        async with serving(["--narrator", url, "--model", "m"], told) as page:
            assert page.startswith("http://")
            for _ in range(500):
                if told:
                    break
                await asyncio.sleep(0.01)
        return b"".join(told).decode()

    with served() as server:
        wrong = server.url("wrong", Play(models=b'{"data":[{"id":"other"}]}'))
        with socket.socket() as gone:
            gone.bind(("127.0.0.1", 0))
            nobody = f"http://127.0.0.1:{gone.getsockname()[1]}/v1"
            told = run(scenario(f"{wrong},{nobody}"))
        assert (
            f"--narrator: {wrong} has models, and 'm' is not among them: other; the tour is served all the same\n"
            in told
        )
        assert f"--narrator: {nobody} cannot be reached: " in told


def test_the_check_tells_it_too(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    async def played(*_: Any, **__: Any) -> dict[str, Any]:
        return {"ok": True}

    # What Chromium sees is tested elsewhere, and costs a tour.
    monkeypatch.setattr(check, "check_tour", played)
    monkeypatch.setenv("SHOP_KEY", "sk-secret")
    with served() as server:
        play = Play(models=b"no", models_status=401)
        url = server.url("keyed", play)
        asked = ["tour", "--check", "--json", "--narrator", url, "--model", "m", "--api-key-env", "SHOP_KEY"]
        assert main(asked) == 0
        assert f"--narrator: {url} refuses the key (401): no; the tour" in capsys.readouterr().err
        assert [sent["authorization"] for sent in play.listed_to] == ["Bearer sk-secret"]
        play.models, play.models_status = None, 200
        assert main(asked) == 0
        assert capsys.readouterr().err == ""
