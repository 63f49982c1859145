"""A text pipe whose sentences went through a fact guard, with its tokens where they were.

A token waits until its sentence is judged, and then comes with its own text, or empty where the sentence is false. So
what is held back is one sentence, and every name and cue stands where it stood. A sentence's end is known by what
follows it: a token that holds the end of one and the beginning of another gives the beginning to the token behind it.
The spaces behind a sentence are its own: with it they are said, or left out.

What follows a sentence that was left out is heard of another product than it was meant of, where that sentence alone
named this one: it has to be true of both.
"""

from __future__ import annotations

import logging
import unicodedata
from collections import deque
from collections.abc import Callable, Sequence
from typing import Literal, get_args

from multimodal.errors import UsageError
from multimodal.pipes.around import AroundPipe
from multimodal.pipes.base import TextPipe, was_cut
from multimodal.pipes.boundaries import SENTENCE, Boundaries
from multimodal.pipes.claims import claims
from multimodal.pipes.guard import FactGuard, Violation
from multimodal.pipes.server_words import harmless
from multimodal.values import Token

__all__ = ["SENTENCE_CHARS", "GuardMode", "GuardedTextPipe"]

log = logging.getLogger(__name__)

GuardMode = Literal["flag", "hold", "stop"]
SENTENCE_CHARS = 1000
"""The longest sentence: one that does not end before is judged as it stands, whatever deltas it came in. A model that
forgot its full stops must not hold up the narration for ever, nor a delta of 50,000 characters the loop."""


class GuardedTextPipe(AroundPipe):
    """A text pipe behind a `FactGuard` (T1-T8, T10, G4). Closing, and cancelling a pull, close the pipe.

    Args:
        pipe: the text pipe (T1-T8).
        guard: judges its sentences.
        mode: ``flag`` = text passes at once and what is wrong is told; ``hold`` = a sentence comes once it is judged,
            and a false one does not; ``stop`` = the text ends before the first false one, and the pipe is closed.
        product: the product that the narration begins with; "" = none in particular.
        instead: of ``hold``: gives, for what was said so far, the tokens that end the narration in the place of a false
            sentence, or of one that the pipe's end cut in the middle, and of all that would follow it. With a
            `product`, the narration is about that one alone: what claims something, or holds a name that no sheet has,
            waits until it is named, and one that is never named is said by `instead`. None = a false sentence is left
            out, and the narration goes on.
        on_violation: called with each; it must not block. One that fails is logged, and the text goes on.

    Raises:
        UsageError: another mode, `instead` with a mode that leaves nothing out, or what is no guard.
    """

    def __init__(
        self,
        pipe: TextPipe,
        guard: FactGuard,
        mode: GuardMode = "hold",
        *,
        product: str = "",
        instead: Callable[[str], Sequence[str]] | None = None,
        on_violation: Callable[[Violation], object] | None = None,
    ) -> None:
        if not isinstance(guard, FactGuard):
            raise UsageError(
                f"guard={guard!r:.80} judges nothing; give FactGuard(FactSheet.of(each) for each in products)"
            )
        if mode not in get_args(GuardMode):
            raise UsageError(f"mode={mode!r} is none; there are: {', '.join(get_args(GuardMode))}")
        if instead is not None and mode != "hold":
            raise UsageError(f"instead is what a false sentence is replaced by, and mode={mode!r} replaces none")
        super().__init__(pipe)
        alone = instead is not None and bool(product)
        self._guard, self._mode, self._judging = guard, mode, guard.begin(product, alone=alone)
        self._instead, self._product = instead, product
        self._on_violation = on_violation
        self._ready: deque[Token] = deque()
        # A token, what of it may be said whatever comes, and what waits with its sentence.
        self._waiting: list[tuple[Token, str, str]] = []
        self._borders, self._sentence, self._carried, self._ended = Boundaries(), "", "", False
        self._heard = product
        self._said: list[str] = []
        self._named, self._unsure = not alone, False
        self._about: str | None = None  # of the token before
        self.left_out = 0
        """Sentences that were not let out."""

    @property
    def violations(self) -> list[Violation]:
        """What was said and is on no sheet, so far."""
        return list(self._judging.violations)

    async def __anext__(self) -> Token:
        while not self._ready:
            if self._over:
                raise StopAsyncIteration
            await self._pull()
        return self._ready.popleft()

    @property
    def cut(self) -> bool:
        """The pipe was cut, and half a sentence of it may have been said (T10): only ``flag`` lets it out."""
        return self._mode == "flag" and super().cut

    @property
    def made(self) -> bool:
        """The pipe says that all of it is made, though not all may be judged (`BeginsAhead`)."""
        return bool(getattr(self._pipe, "made", False))

    async def begin(self) -> None:
        """Let the pipe begin before it is pulled, where it can (`BeginsAhead`)."""
        begin = getattr(self._pipe, "begin", None)
        if begin is not None:
            await begin()

    async def aclose(self) -> None:
        """End the pipe. Twice is once."""
        self._ready.clear()
        await super().aclose()

    async def _pull(self) -> None:
        """One token more of the pipe, and what it lets out."""
        try:
            token = await self._pulled()
        except StopAsyncIteration:
            if not self._over:  # else it was closed meanwhile
                await self._finish()
            return
        except Exception:
            self._over = True
            raise
        if self._over:
            return
        self._about = token.about
        if self._mode == "flag":
            self._overhear(token)
        elif await self._take(token) and token.last:
            await self._finish()

    def _overhear(self, token: Token) -> None:
        """Let a token pass, and judge what it ends."""
        own, *begun = self._parts(token.text)
        self._sentence = (self._sentence + own).lstrip()
        for part in begun:
            self._judge()
            self._sentence = part.lstrip()
        self._ready.append(token)
        if token.last:
            self._over = True
            self._judge()

    async def _take(self, token: Token) -> bool:
        """Judge what the token ends, and let out what is judged; False = the text is over."""
        own, *begun = self._parts(token.text)
        text, self._carried = self._carried + own, ""
        self._sentence = (self._sentence + own).lstrip()
        spaces, shown = "", None
        for part in begun:
            passed = self._judge()
            self._let_out(passed)
            said = text if passed else ""
            if shown is None and not text.strip():
                spaces = said  # nothing but what stands before the new sentence
            else:
                shown = (shown or spaces) + said
            text, self._sentence = part, part.lstrip()
            if not passed and (self._mode == "stop" or self._instead is not None):
                await self._end("" if self._waits else shown or "")
                return False
        if shown is None:
            self._waiting.append((token, spaces, text))
        elif self._waits:
            self._waiting.append((token, "", shown))
            self._carried = text
        else:
            self._say(token, shown)
            self._carried = text
        return True

    @property
    def _waits(self) -> bool:
        """What was judged, and is true, may be of another product: it waits for this one's name."""
        return self._unsure and not self._named

    def _say(self, token: Token, text: str) -> None:
        self._ready.append(Token(text, lane=token.lane, about=token.about))
        self._remember(text)

    def _remember(self, text: str) -> None:
        """What was said is read only by `instead`; a narration without may be endless."""
        if self._instead is not None:
            self._said.append(text)

    async def _finish(self) -> None:
        """The text has ended: so has its last sentence, unless the pipe was cut in the middle of it."""
        self._over = True
        cut = self._mode != "flag" and was_cut(self._pipe)
        passed = self._judge() if not cut or self._borders.tail() >= SENTENCE else False
        if self._mode == "flag":
            return
        if cut:
            self._leave_out_half()
        waiting = bool(self._waiting)
        self._let_out(passed)
        if passed and self._carried and not self._waits:
            before = "" if waiting or not self._ready else self._ready.pop().text
            self._ready.append(Token(before + self._carried, about=self._about))
            self._remember(self._carried)
        if (cut or not passed) and (self._mode == "stop" or self._instead is not None):
            await self._end("")
        elif not self._named:
            log.warning("the fact guard: %s was never named", self._product)
            await self._end("")
        else:
            self._mark_last()

    def _leave_out_half(self) -> None:
        """The pipe was cut: the sentence that is open is not judged, as half of one may say another thing."""
        half, self._sentence = self._sentence.strip(), ""
        log.warning(
            "the fact guard: the text was cut before its end%s", half and f", and this is left out: {harmless(half)}"
        )
        self.left_out += bool(half)

    async def _end(self, shown: str) -> None:
        """The text ends here, whatever the pipe would say; gives what is said in its place."""
        self._over = True
        self._waiting.clear()
        self._carried = ""
        if shown:
            self._say(Token("", about=self._about), shown)
        if self._instead is not None:
            self._ready.extend(map(Token, self._instead("".join(self._said))))
        if not self._ready:
            self._ready.append(Token(""))
        self._mark_last()
        await self._close()

    def _mark_last(self) -> None:
        if self._ready:
            last = self._ready.pop()
            self._ready.append(Token(last.text, True, last.lane, last.about))

    def _let_out(self, passed: bool) -> None:
        """What waited for a judgement: with its text, or without."""
        if passed and self._waits:
            return
        for token, spaces, text in self._waiting:
            # What is said instead brings its own.
            kept = spaces if passed or self._instead is None else ""
            self._say(token, kept + (text if passed else ""))
        self._waiting.clear()

    def _parts(self, text: str) -> list[str]:
        """A token's text: what belongs to the sentence that is open, and each part that begins another."""
        parts, sentence = [""], self._sentence
        for piece in _pieces(text):
            self._ended = self._borders.feed(piece) >= SENTENCE or self._ended
            long = len(sentence) + len(piece) > SENTENCE_CHARS
            if sentence and (long or (self._ended and not piece.isspace())):
                parts.append("")
                sentence, self._ended = "", False
            parts[-1] += piece
            sentence = (sentence + piece).lstrip()
        return parts

    def _judge(self) -> bool:
        """The sentence that has ended: may it be said?"""
        sentence, self._sentence = self._sentence, ""
        if not sentence.strip():
            return True
        meant = self._judging.product
        found = self._judging.judge(sentence)
        for violation in found:
            self._tell(violation)
        passed = not found and self._hear(sentence, meant)
        if passed and not self._named:
            mentions = {mention.product for mention in self._guard.mentions(sentence)}
            self._named = self._product in mentions
            self._unsure = self._unsure or bool(mentions or claims(sentence)) or self._guard.strange(sentence)
        if not passed and self._mode != "flag":
            self.left_out += 1
        return passed

    def _hear(self, sentence: str, meant: str) -> bool:
        """Whether a sentence is true of what it is heard of, too; from now on that is what it named last."""
        heard = self._judging.product
        if self._mode == "hold" and self._heard != meant:
            found, heard = self._guard.judge(sentence, self._heard)
            if found:
                log.warning(
                    "the fact guard: this would be heard of %r, and is left out: %s", self._heard, harmless(sentence)
                )
                return False
        self._heard = heard
        return True

    def _tell(self, violation: Violation) -> None:
        log.warning("the fact guard: %s", harmless(str(violation)))
        if self._on_violation is not None:
            try:
                self._on_violation(violation)
            except Exception:
                log.exception("on_violation failed; the narration goes on")


def _pieces(text: str) -> list[str]:
    """A text cut where a sentence may end: behind a sign that is no letter, and before the next.

    What is longer than a sentence without such a place is cut all the same, between two characters if it can be.
    """
    found: list[str] = []
    start = 0
    for at in range(1, len(text)):
        cut = at
        if at - start >= SENTENCE_CHARS:
            while cut > at - 32 and _tied(text[cut - 1], text[cut]):
                cut -= 1
        elif text[at - 1].isspace() == text[at].isspace() and text[at - 1] not in "。！？!?":
            continue
        found.append(text[start:cut])
        start = cut
    return [*found, text[start:]] if text else []


def _tied(before: str, after: str) -> bool:
    """Whether two characters are likely to be one to a reader: a mark, a variation, what is joined (UAX #29)."""
    return unicodedata.category(after)[0] == "M" or "\u200d" in (before, after) or "\U0001f3fb" <= after <= "\U0001f3ff"
