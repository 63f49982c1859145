"""A page of a shop: the JSON-LD in its scripts. Nothing of it is executed, fetched or shown."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from html.parser import HTMLParser

from multimodal.errors import UsageError
from multimodal.pipes.feed_json import lenient
from multimodal.pipes.feed_jsonld import LinkedDocument, linked_rows
from multimodal.pipes.feed_rows import FeedRow
from multimodal.pipes.feed_source import FeedSource

__all__ = ["page_rows"]


def page_rows(source: FeedSource, now: datetime) -> Iterator[FeedRow]:
    """The products that a page's scripts of the type ``application/ld+json`` describe; one that is broken fails alone.

    Raises:
        UsageError: the page has no such script.
    """
    source.check_size()
    scripts = _Scripts()
    for part in source.texts():
        scripts.feed(part)
    scripts.close()
    if not scripts.found:
        raise UsageError(f'no JSON-LD in the page {source.path}: it needs a <script type="application/ld+json">')
    documents = []
    for line, written in scripts.found:
        try:
            documents.append(LinkedDocument(line, lenient(_bare(written))))
        except RecursionError:
            documents.append(LinkedDocument(line, ValueError("the script's JSON is nested too deeply")))
        except ValueError as error:
            documents.append(LinkedDocument(line, ValueError(f"the script holds no valid JSON: {error}")))
    return linked_rows(documents, now)


def _bare(written: str) -> str:
    """The JSON without the comment or CDATA marks that old templates put around it."""
    written = written.strip()
    for begin, end in (("<!--", "-->"), ("//<![CDATA[", "//]]>"), ("/*<![CDATA[*/", "/*]]>*/"), ("<![CDATA[", "]]>")):
        if written.startswith(begin):
            written = written.removeprefix(begin).strip().removesuffix(end)
    return written.strip().removesuffix(";")


class _Scripts(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[int, str]] = []
        self._parts: list[str] | None = None
        self._line = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "script":
            kind = (dict(attrs).get("type") or "").partition(";")[0].strip().lower()
            self._parts = [] if kind == "application/ld+json" else None
            self._line = self.getpos()[0]

    def handle_data(self, data: str) -> None:
        if self._parts is not None:
            self._parts.append(data)

    def handle_endtag(self, tag: str) -> None:
        self._finish()

    def close(self) -> None:
        super().close()
        self._finish()

    def _finish(self) -> None:
        if self._parts is not None:
            written, self._parts = "".join(self._parts), None
            if written.strip():
                self.found.append((self._line, written))
