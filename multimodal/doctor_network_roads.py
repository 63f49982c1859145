"""The three roads to one tour, tried as a player tries them: data channels by UDP, a WebSocket, server-sent events.

One seat is taken for all of them, as a player's cursor goes from road to road, and given back at the end.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from http.client import HTTPException
from typing import Any
from urllib.parse import urljoin, urlsplit

import msgspec

from multimodal import wire
from multimodal.doctor_network_finding import Finding, broken, good
from multimodal.doctor_network_http import Place, ask, listen, refusal, why_not
from multimodal.doctor_network_ice import Credentials, told
from multimodal.doctor_network_verdicts import (
    LISTEN,
    judge_pongs,
    judge_sse,
    no_udp,
    offered,
    refusal_advice,
    upgrade_advice,
)
from multimodal.errors import ChannelClosedError, JoinRefused, RemoteProtocolError, TransportError
from multimodal.sse_reader import SSEDecoder
from multimodal.transport.base import Link

__all__ = ["ROAD_LIMIT", "Visit"]

ROAD_LIMIT = 6.0
"""Seconds in which a road has to stand; a player starts the next one after 4."""
_PINGS = 2


class Visit:
    """One seat in a tour, and what its roads are like.

    Args:
        place: the tour.
        token: the join token ("" = none).
        origin: sent along as a page's ("" = none).
        settings: as for `WebRTCLink`, for the road by UDP.
    """

    def __init__(self, place: Place, *, token: str = "", origin: str = "", **settings: Any) -> None:
        self.place = place
        self.seat = ""
        self.cursor = -1
        self.ice: list[tuple[str, Credentials | None]] = []
        """Servers that viewers are told of, with the credentials that they get."""
        self.origin = origin
        self._token, self._settings = token, settings

    async def webrtc(self) -> Finding:
        """Post an offer, as a player does, and wait for the first message on its data channels."""
        from multimodal.transport.webrtc import WebRTCLink

        name, tried = "WebRTC", f"posted an offer to {self.place.url('whep')} and waited for the tour's first message"
        link, offer = await WebRTCLink.offering(connect_limit=ROAD_LIMIT, **self._settings)
        try:
            headers = {**self._headers, "Content-Type": "application/sdp"}
            path = self.place.path("whep", self.seat)
            reply = await asyncio.to_thread(ask, self.place, "POST", path, headers, offer.encode())
            if reply.status != 201:
                return broken(
                    name, tried, f"refused: {refusal(reply)}", refusal_advice(reply.status, bool(self._token))
                )
            self._sit(reply.headers.get("location", ""))
            self.ice = told(reply.headers.get("link", ""))
            answer = reply.body.decode(errors="replace")
            began = time.monotonic()
            try:
                await link.accept(answer)
                await link.opened()
                link.send_event(wire.encode(self._hello()))
                async with asyncio.timeout(ROAD_LIMIT):
                    await self._first(link)
            except RemoteProtocolError as error:
                advice = "is there a proxy that changes answers?"
                return broken(name, tried, f"its answer cannot be read: {error}", advice)
            except (TransportError, TimeoutError):
                came = f"it answered, but no connection came to stand within {ROAD_LIMIT:g} s ({offered(answer)})"
                return broken(name, tried, came, no_udp(answer))
            took = time.monotonic() - began
            return good(
                name, tried, f"the first message came {took * 1000:.0f} ms after the answer ({offered(answer)})"
            )
        except (OSError, HTTPException) as error:
            return broken(name, tried, *why_not(error, self.place))
        finally:
            await link.aclose()

    async def websocket(self) -> Finding:
        """Open a WebSocket, say hello, and exchange pings on it."""
        from multimodal.transport.websocket_client import join_websocket

        url = self.place.url("ws", self.seat)
        name, tried = "WebSocket", f"opened {self.place.url('ws')}, said hello and sent {_PINGS} pings, a second apart"
        try:
            began = time.monotonic()
            async with asyncio.timeout(ROAD_LIMIT):
                link = await join_websocket(url, token=self._token, origin=self.origin)
            opened = time.monotonic() - began
        except JoinRefused as error:
            came = f"the upgrade was refused: {error.status} {error.code}".rstrip()
            return broken(name, tried, came, upgrade_advice(error.status, bool(self._token), error.code))
        except TimeoutError:
            came = f"no answer to the upgrade within {ROAD_LIMIT:g} s"
            return broken(name, tried, came, upgrade_advice(0, bool(self._token)))
        except ChannelClosedError as error:
            if isinstance(error.__cause__, OSError):
                return broken(name, tried, *why_not(error.__cause__, self.place))
            came = f"the upgrade failed: {error.__cause__ or error}"
            return broken(name, tried, came, upgrade_advice(0, bool(self._token)))
        try:
            link.send_event(wire.encode(self._hello()))
            async with asyncio.timeout(ROAD_LIMIT):
                return judge_pongs(name, tried, opened, await self._ping(link))
        except TimeoutError:
            came = f"the upgrade passed, but no pong came within {ROAD_LIMIT:g} s"
            return broken(name, tried, came, "something between inspects WebSockets and drops their frames: use wss://")
        except JoinRefused as error:
            # Said over the WebSocket itself: a page cannot read the answer to a refused upgrade.
            came = f"the upgrade passed, and the hello was refused: {error.status} {error.code}".rstrip()
            return broken(name, tried, came, refusal_advice(error.status, bool(self._token)))
        except (TransportError, RemoteProtocolError) as error:
            return broken(name, tried, f"it closed: {error}", "look into the server's log")
        finally:
            await link.aclose()

    async def sse(self) -> Finding:
        """Listen to server-sent events for a few seconds, and see whether they come when they are sent."""
        name = "SSE"
        tried = f"listened to {self.place.url('sse')} for {LISTEN:g} s, which carries a ping every second"
        decoder = SSEDecoder()
        came: list[tuple[float, Any]] = []

        def heard(piece: bytes) -> bool:
            now = time.monotonic()
            came.extend((now, message) for event in decoder.feed(piece) for message in _decoded(event.data))
            return True

        headers = {**self._headers, "Content-Type": "application/json", "Accept": "text/event-stream"}
        body = msgspec.json.encode(self._hello())
        path = self.place.path("sse", self.seat)
        try:
            reply = await asyncio.to_thread(listen, self.place, path, headers, body, LISTEN, heard)
        except TimeoutError:
            return judge_sse(name, tried, None, [])
        except (OSError, HTTPException) as error:
            return broken(name, tried, *why_not(error, self.place))
        except RemoteProtocolError as error:
            return broken(name, tried, f"what came is not ours: {error}", "is this the path of a tour?")
        if reply.status != 200:
            return broken(name, tried, f"refused: {refusal(reply)}", refusal_advice(reply.status, bool(self._token)))
        for _, message in came:
            self._note(message)
        return judge_sse(name, tried, reply, [(at, m.t_ms) for at, m in came if isinstance(m, wire.Ping)])

    async def leave(self) -> None:
        """Give the seat back; where that fails the server ends it by itself."""
        if self.seat:
            with suppress(OSError, HTTPException):
                await asyncio.to_thread(ask, self.place, "DELETE", self.place.path("whep", self.seat), self._headers)

    # ---- the seat and its cursor

    @property
    def _headers(self) -> dict[str, str]:
        page = {"Origin": self.origin} if self.origin else {}
        return {**page, "Authorization": f"Bearer {self._token}"} if self._token else page

    def _hello(self) -> wire.Hello:
        formats = ("image/webp", "image/jpeg", "image/png")
        return wire.Hello(
            cursor=self.cursor, resume=self.cursor >= 0, formats=formats, save_data=True, join_token=self._token
        )

    def _sit(self, location: str) -> None:
        path = urlsplit(urljoin(self.place.url("whep"), location)).path
        prefix = self.place.path("whep") + "/"
        if path.startswith(prefix):
            self.seat = path.removeprefix(prefix)

    def _note(self, message: Any) -> None:
        if isinstance(message, wire.Seat):
            self._sit(message.path)
        elif isinstance(message, wire.Bundle) and message.events:
            self.cursor = max(self.cursor, message.events[-1].seq)

    async def _first(self, link: Link) -> None:
        while (inbound := await link.receive()).channel != "events":
            pass
        for message in _decoded(inbound.data):
            self._note(message)

    async def _ping(self, link: Link) -> list[tuple[float, float, float]]:
        """For each ping: when it left, when its pong came, and the server's clock in it (ms)."""
        pongs: list[tuple[float, float, float]] = []
        for number in range(_PINGS):
            if number:
                await asyncio.sleep(1.0)
            sent = time.monotonic()
            link.send_event(wire.encode(wire.Ping(number)))
            while len(pongs) <= number:
                inbound = await link.receive()
                for message in _decoded(inbound.data) if inbound.channel == "events" else ():
                    self._note(message)
                    if isinstance(message, wire.Pong) and message.id == number:
                        pongs.append((sent, time.monotonic(), message.at_ms))
        return pongs


def _decoded(data: str | bytes) -> list[Any]:
    message = wire.decode_server(data)
    return [] if message is None else [message]
