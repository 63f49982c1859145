"""Cues out of the narration itself: mentions of products, markers, meaning. Pure; stands before the aligner.

Every token that goes in comes out once, in order, its text without the markers: so boundaries are those of the text
pipe. Cues come out with the token that reaches their boundary, in the order of the text, and none is late for its mark.
A token is held only while a cue might still be tied to its boundary: a name ended in it but may go on, or a marker
began in it.

S1   A mention's anchor is the boundary behind the token in which the name ends. `lead` moves it back by as many tokens,
     but not before the boundary behind the token in which the name begins, with whose word the picture then comes; and
     all text comes out `lead` tokens later.
S2   A marker's anchor is the boundary behind the token in which it begins; before any text it is 0. `lead` leaves it
     where its author set it.
S3   What a product's mentions give: `repeat="first"` one cue, and none once another source gave the product a cue or an
     explicit cue is known; `repeat="every"` one each, but for a mention that a marker of the product touches (nothing
     seen between) or whose anchor an explicit cue of the product shares. A marker always gives a cue.
S4   Meaning is judged once a token, on the last words that are complete, and tied to the boundary behind the token,
     `lead` tokens earlier as in S1. While a name or marker is among those words, its product holds the passage. Under
     ``first`` it passes over products that have a cue.
S5   Reported: markers that are broken, name no product, another than S6 allows, or no policy; an `embed` that fails,
     after which meaning is off; at the end, products named again without a further cue, and products that got no cue at
     all.
S6   Where a token says which product it is about (`Token.about`), only that one gets a cue at it.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Literal, cast, get_args

import msgspec

from multimodal.errors import UsageError
from multimodal.sync.markers import Marker, MarkerFilter
from multimodal.sync.matcher import Matcher, Mention, ProductNames
from multimodal.sync.meaning import LastWords, Meaning
from multimodal.values import LATE_POLICIES, Cue, Lane, LatePolicy, Product, Token

__all__ = ["Repeat", "Report", "Scanned", "Scanner"]

Repeat = Literal["first", "every"]
MARKER_CHARS = 80
"""A marker may be so long, or longer where the catalogue's codes are: room for a wrong code to be taken out whole."""
MARKER_ROOM = len("[[show: | placeholder ]]")


class Report(msgspec.Struct, frozen=True):
    """Something about the narration that its author should know.

    Args:
        kind: ``broken_marker``, ``unknown_product``, ``unknown_policy``, ``other_product``, ``embed_failed``,
            ``repeated`` or ``never_named``.
        token: the token where it is; at the end, how many there were.
        char: how many characters were seen before it.
        text: the marker as it was written, the last words, or the product's id.
        detail: one sentence: what is wrong, what was done.
    """

    kind: str
    token: int
    char: int
    text: str
    detail: str


class Scanned(msgspec.Struct, frozen=True):
    """What one call let out: declare the cues first, then feed the tokens."""

    tokens: Sequence[Token] = ()
    cues: Sequence[Cue] = ()
    reports: Sequence[Report] = ()


class _Held(msgspec.Struct):
    """A token on its way: its text as far as it is sure to be seen, and how many characters there are up to its end."""

    index: int
    last: bool
    text: str
    end: int
    lane: Lane = "main"
    about: str | None = None


class Scanner:
    """Reads one narration for cues.

    Args:
        names: the catalogue; give a `ProductNames` made once where many narrations use it.
        mentions: a product's name is a cue.
        markers: ``[[show:sku]]`` is a cue, and is not seen.
        meaning: words about a product are a cue; None = off.
        repeat: what a product that is named again gets, ``first`` or ``every`` (S3).
        lead: tokens by which pictures come before the end of their mention.

    Raises:
        UsageError: an argument out of range, or a catalogue in which a name means two products.
    """

    def __init__(
        self,
        names: ProductNames | Iterable[Product],
        *,
        mentions: bool = True,
        markers: bool = False,
        meaning: Meaning | None = None,
        repeat: Repeat = "first",
        lead: int = 0,
    ) -> None:
        if repeat not in get_args(Repeat):
            raise UsageError(f"repeat={repeat!r} is unknown; use one of {', '.join(get_args(Repeat))}")
        if not isinstance(lead, int) or lead < 0:
            raise UsageError(f"lead={lead!r} must be a whole number of tokens, 0 or more")
        self._names = names if isinstance(names, ProductNames) else ProductNames(names)
        self._matcher = Matcher(self._names) if mentions else None
        limit = max(MARKER_CHARS, self._names.longest_code + MARKER_ROOM)
        self._filter = MarkerFilter(limit) if markers else None
        self._meaning, self._lead = meaning, lead
        self._repeat: Repeat = repeat
        self._held: deque[_Held] = deque()
        self._index = self._chars = self._chars_released = 0
        self._ended = False
        # by boundary, place in the text, and at one place a name before a marker
        self._cues: list[tuple[int, int, int, Cue]] = []
        self._reports: list[Report] = []
        # product -> where it first got a cue from its mention, a marker or meaning, in characters
        self._placed: dict[str, int] = {}
        # Where its last markers stood: more than a few inside one mention are nobody's intent.
        self._marked: dict[str, deque[int]] = {}
        self._explicit: dict[str, set[int]] = {}
        self._again: dict[str, int] = {}
        # the product of this passage, and the place up to which its name is among the last words
        self._topic: str | None = None
        self._topic_named = 0
        self._words = None if meaning is None else LastWords(meaning.words)

    def explicit(self, cue: Cue) -> None:
        """A cue from elsewhere, so that the product does not get another at its mention (S3)."""
        product = cue.product or self._names.owner(cue.key)
        if product:
            self._explicit.setdefault(product, set()).add(cue.anchor)

    def feed(self, token: Token) -> Scanned:
        """The next token.

        Raises:
            UsageError: the text was said to be complete.
        """
        if self._ended:
            raise UsageError("a token after the end of the text; make a new Scanner for another narration")
        index, text = self._index, token.text
        self._index += 1
        marked = self._filter is not None and (self._filter.busy or "[" in text)
        if not (marked or self._held or self._lead or self._words or token.last):
            found = self._matcher.feed(text) if self._matcher is not None else ()
            self._chars += len(text)
            if not found and (self._matcher is None or self._matcher.open_end is None):
                # Most tokens: nothing held before it, nothing found in it, nothing open behind it.
                self._chars_released = self._chars
                return Scanned((token,))
            self._held.append(_Held(index, False, text, self._chars, token.lane, token.about))
            for mention in found:
                self._mention(mention)
            return self._release(self._boundary())
        self._held.append(_Held(index, token.last, "", self._chars, token.lane, token.about))
        if marked and self._filter is not None:
            self._sort_out(self._filter.feed(text, index))
        else:
            self._see(index, text)
        if token.last:
            return self.flush()
        self._judge()
        return self._release(self._boundary())

    def flush(self) -> Scanned:
        """The text is complete: everything held comes out, and the reports of the end. Twice is once."""
        if self._ended:
            return Scanned()
        self._ended = True
        if self._filter is not None:
            self._sort_out(self._filter.finish())
        if self._matcher is not None:
            for mention in self._matcher.finish():
                self._mention(mention)
        if self._words is not None and self._held:
            # With nothing held, the last boundary has passed already.
            self._words.finish()
            self._judge()
        self._report_products()
        return self._release(self._index)

    @property
    def held(self) -> int:
        """Tokens that are held now."""
        return len(self._held)

    # ---- what the text says --------------------------------------------------------------------------------------

    def _sort_out(self, pieces: Sequence[tuple[int, str] | Marker]) -> None:
        for piece in pieces:
            if isinstance(piece, Marker):
                self._marker(piece)
            else:
                self._see(*piece)

    def _see(self, index: int, text: str) -> None:
        """Text that is seen, of a token that is held."""
        held = self._held[index - self._held[0].index]
        held.text += text
        self._chars += len(text)
        held.end = self._chars
        if self._words is not None:
            self._words.feed(text)
        if self._matcher is not None:
            for mention in self._matcher.feed(text):
                self._mention(mention)

    def _mention(self, mention: Mention) -> None:
        product, token = mention.product, self._token_of(mention.end)
        if self._is_another_s(product, token):
            return
        anchor = self._moved(token + 1, mention.start)
        if self._repeat == "first":
            unplaced = self._placed.get(product, mention.end + 1) > mention.end and product not in self._explicit
        else:
            touched = any(mention.start <= place <= mention.end for place in self._marked.get(product, ()))
            unplaced = not touched and anchor not in self._explicit.get(product, ())
        self._topic, self._topic_named = product, mention.end
        if unplaced:
            self._place(anchor, mention.end, 0, Cue(anchor, self._names.picture(product), product=product))
        else:
            self._again[product] = self._again.get(product, 0) + 1

    def _marker(self, marker: Marker) -> None:
        code, bar, policy = (part.strip() for part in marker.body.partition("|"))
        policy = policy.lower()
        found = self._names.find(code) if code else None
        if marker.broken:
            self._report("broken_marker", marker, f"{marker.broken}; it was taken out")
        elif bar and policy not in LATE_POLICIES:
            known = ", ".join(LATE_POLICIES)
            self._report("unknown_policy", marker, f"{policy!r} is none of {known}; the marker was taken out")
        elif found is None:
            self._report("unknown_product", marker, f"the catalogue has no product {code!r}; the marker was taken out")
        else:
            product, key = found
            if self._is_another_s(product, marker.tag):
                detail = f"{code!r} stands where another product is spoken of; it was taken out"
                self._report("other_product", marker, detail)
                return
            # Boundary 0 passes with the first token that comes out: that is `lead` tokens after it came in.
            anchor = marker.tag + 1 if self._chars or marker.tag > self._lead else 0
            self._marked.setdefault(product, deque(maxlen=8)).append(self._chars)
            self._topic, self._topic_named = product, self._chars
            late = cast("LatePolicy | None", policy or None)
            self._place(anchor, self._chars, 1, Cue(anchor, key, late, product=product))

    def _is_another_s(self, product: str, token: int) -> bool:
        """Whether the pipe says of a token, one that is held, that it is about something else (S6)."""
        held = self._held[token - self._held[0].index] if self._held else None
        return held is not None and held.about not in (None, product)

    def _place(self, anchor: int, char: int, rank: int, cue: Cue) -> None:
        self._placed.setdefault(cue.product, char)
        insort(self._cues, (anchor, char, rank, cue), key=lambda each: each[:3])

    def _judge(self) -> None:
        """Whether the words that are complete now are about another product than those before (S4)."""
        words = self._words
        if self._meaning is None or words is None or not words.fresh:
            return
        words.fresh = False
        if words.start < self._topic_named:
            return
        try:
            topic = self._meaning.about(words.text, self._topic)
        except Exception as error:
            # Whatever somebody's model raises, the narration goes on without it.
            self._meaning = self._words = None
            detail = f"embed failed, meaning is off from here: {type(error).__name__}: {error}"
            self._reports.append(Report("embed_failed", self._index - 1, self._chars, words.text, detail))
            return
        if topic is None or topic == self._topic:
            self._topic = topic
            return
        if self._is_another_s(topic, self._index - 1):
            return
        self._topic = topic
        if self._repeat == "first" and (topic in self._placed or topic in self._explicit):
            return
        anchor = self._moved(self._index, words.start)
        self._place(anchor, self._chars, 2, Cue(anchor, self._names.picture(topic), product=topic))

    # ---- where things stand --------------------------------------------------------------------------------------

    def _moved(self, anchor: int, start: int) -> int:
        """An anchor moved back by `lead`, not before the word at `start` (S1)."""
        if not self._lead:
            return anchor
        # Where the first word is out already, `lead` does not reach back to it.
        first = self._token_of(start + 1) + 1 if start >= self._chars_released else 0
        return max(anchor - self._lead, first)

    def _token_of(self, end: int) -> int:
        """The token, among those held, in which the character before a place stands."""
        return next(held.index for held in self._held if held.end >= end)

    def _boundary(self) -> int:
        """Up to which token everything may come out: behind it, a cue can still be tied to a boundary."""
        first = self._index
        if self._filter is not None and (tag := self._filter.opened_in) is not None:
            first = tag
        if self._matcher is not None and (end := self._matcher.open_end) is not None:
            first = min(first, self._token_of(end))
        return first - self._lead

    def _release(self, until: int) -> Scanned:
        held, tokens = self._held, []
        while held and held[0].index < until:
            token = held.popleft()
            tokens.append(Token(token.text, token.last, token.lane, token.about))
            self._chars_released += len(token.text)
        # Not before their token: a name that is still open may have its place before them.
        boundary = self._held[0].index if self._held else self._index
        cues = [cue for anchor, _, _, cue in self._cues if anchor <= boundary]
        del self._cues[: len(cues)]
        reports, self._reports = self._reports, []
        return Scanned(tokens, cues, reports)

    # ---- what its author should know -----------------------------------------------------------------------------

    def _report(self, kind: str, marker: Marker, detail: str) -> None:
        self._reports.append(Report(kind, marker.tag, self._chars, marker.text, f"{marker.text!r}: {detail}"))

    def _report_products(self) -> None:
        for product, count in self._again.items():
            detail = (
                f"{product!r} was named {count} more times where it got no cue of its own (repeat={self._repeat!r})"
            )
            self._reports.append(Report("repeated", self._index, self._chars, product, detail))
        for product in self._names.products:
            if product not in self._placed and product not in self._explicit:
                detail = f"{product!r} got no cue: no name of it, no marker and no cue of its own was met"
                self._reports.append(Report("never_named", self._index, self._chars, product, detail))
