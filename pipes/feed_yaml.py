"""Our own catalogue in YAML, event by event: no object is ever made of a tag, and nothing grows that is not written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from multimodal.errors import UsageError
from multimodal.pipes.feed_json import own_row, own_shop
from multimodal.pipes.feed_rows import FeedRow
from multimodal.pipes.feed_source import FeedSource

if TYPE_CHECKING:
    from multimodal.pipes.feed import Feed

__all__ = ["yaml_rows"]

_DEPTH = 16


def yaml_rows(source: FeedSource, feed: Feed) -> Iterator[FeedRow]:
    """The products of a YAML document ``{shop: ..., products: [...]}``, or of a list of them.

    Every scalar is taken as it is written: no date, number or `no` changes on its way. A product that uses an anchor's
    alias is left out, for with aliases a small file could ask for any amount of memory.

    Raises:
        UsageError: PyYAML is missing, or the document is no YAML (with the line) or has no list of products.
    """
    try:
        import yaml
    except ImportError as error:
        raise UsageError("a catalogue in YAML needs PyYAML: pip install 'multimodal-stream[catalog]'") from error
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    events = yaml.parse(_Text(source), Loader=loader)
    try:
        yield from _document(source, feed, events)
    except yaml.YAMLError as error:
        raise UsageError(f"the catalogue {source.path} is not valid YAML: {error}") from error
    except RecursionError as error:
        raise UsageError(f"the catalogue {source.path} is nested too deeply") from error


class _Text:
    """The source as the stream that PyYAML reads."""

    def __init__(self, source: FeedSource) -> None:
        self._texts = source.texts()
        self._rest = ""

    def read(self, size: int) -> str:
        if not self._rest:
            self._rest = next((text.removeprefix("\ufeff") for text in self._texts if text), "")
        part, self._rest = self._rest[:size], self._rest[size:]
        return part


def _document(source: FeedSource, feed: Feed, events: Iterator[Any]) -> Iterator[FeedRow]:
    wrong = UsageError(f"the catalogue {source.path} needs the form: shop: ..., products: [...]")
    top = ""
    for event in events:
        top = type(event).__name__
        if top not in {"StreamStartEvent", "DocumentStartEvent"}:
            break
    if top == "SequenceStartEvent":
        yield from _products(events)
        return
    if top != "MappingStartEvent":
        raise wrong
    listed = False
    for key in events:
        if type(key).__name__ == "MappingEndEvent":
            break
        value = next(events)
        if getattr(key, "value", None) == "products" and type(value).__name__ == "SequenceStartEvent":
            listed = True
            yield from _products(events)
        else:
            content, fault = _value(value, events)
            if getattr(key, "value", None) == "shop" and not fault:
                feed.shop = own_shop(content)
    if not listed:
        raise wrong


def _products(events: Iterator[Any]) -> Iterator[FeedRow]:
    for event in events:
        if type(event).__name__ == "SequenceEndEvent":
            return
        line = event.start_mark.line + 1
        content, fault = _value(event, events)
        yield FeedRow(line, broken=fault) if fault else own_row(line, content)


def _value(event: Any, events: Iterator[Any]) -> tuple[Any, str]:
    """The value that begins with an event, with texts for scalars; and what is wrong with it."""
    root: list[Any] = []
    opened: list[tuple[Any, list[str]]] = [(root, [])]  # each with the key that waits for its value
    fault = ""
    while True:
        kind = type(event).__name__
        if kind in {"SequenceEndEvent", "MappingEndEvent"}:
            opened.pop()
        else:
            value: Any
            if kind == "ScalarEvent":
                empty = event.implicit[0] and event.value in {"", "~", "null", "Null", "NULL"}
                value = None if empty else event.value
            elif kind == "AliasEvent":
                value, fault = None, f"it uses the alias *{event.anchor}; write the value out"
            else:
                value = [] if kind == "SequenceStartEvent" else {}
            holder, key = opened[-1]
            if isinstance(holder, list):
                holder.append(value)
            elif key:
                holder[key.pop()] = value
            else:
                key.append(value if isinstance(value, str) else "")
            if isinstance(value, list | dict):
                if len(opened) > _DEPTH:
                    # What is deeper is read past, and kept nowhere.
                    fault = f"it is nested more than {_DEPTH} deep"
                    _past(events)
                else:
                    opened.append((value, []))
        if len(opened) == 1:
            return root[0], fault
        event = next(events)


def _past(events: Iterator[Any]) -> None:
    depth = 1
    while depth:
        kind = type(next(events)).__name__
        depth += kind.endswith("StartEvent") - kind.endswith("EndEvent")
