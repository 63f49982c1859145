"""One answer on its way from token ids to tokens that may leave: text, stop sequences, fillers, chunks. Pure.

W1. One token for each token id, in order, so that indices count ids; its text is empty while text is held back. A last
    step without an id gives a token only where text was still held, and then that token carries it.
W2. All texts together are the text of the ids, up to a stop sequence: neither that nor anything behind it is given.
W3. The last token says so (T6), unless it left before the end was known. After the end nothing follows.
W4. `steps` are the steps of the tokens last taken, one for each.
W5. A token costs the same, however long the answer is: nothing here reads or joins what has left.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, Literal

from multimodal.errors import UsageError
from multimodal.pipes.chunk_settings import ChunkStats
from multimodal.pipes.chunker import Chunker
from multimodal.pipes.detokenizer import Detokenizer
from multimodal.pipes.generation import Finish, Step
from multimodal.pipes.stops import StopSequences
from multimodal.values import Token

__all__ = ["TextFlow"]


class TextFlow:
    """Turns the steps of one answer into tokens; `now` is seconds on one monotonic clock.

    Args:
        tokenizer: as for `Detokenizer`.
        stop: sequences that end the answer; they are not shown.
        chunk_size: tokens that leave together at most; with 1, and threshold 0, each leaves at once.
        priority_threshold: 0 = no low lane for filler words, 1 = the widest (C6).
        max_wait: seconds that a token waits at most (C4).
        sync_interval: tokens between two sync marks, at which the low lane is emptied (C8); None = there are none.
        skip_special_tokens: leave them out of the text; they stay tokens, of no text.
        filler_wait: seconds that a filler word waits at most; None = twice `max_wait`.
        max_chars: characters that leave together at most; None = any.
        whole_graphemes: as for `Detokenizer`.

    Raises:
        UsageError: an argument out of its range.
    """

    def __init__(
        self,
        tokenizer: Any,
        *,
        stop: Sequence[str] = (),
        chunk_size: int = 1,
        priority_threshold: float = 0.0,
        max_wait: float = 0.4,
        sync_interval: int | None = None,
        skip_special_tokens: bool = True,
        filler_wait: float | None = None,
        max_chars: int | None = None,
        whole_graphemes: bool | Literal["likely"] = "likely",
    ) -> None:
        self.steps: list[Step] = []
        """Those of the tokens that were taken last (W4)."""
        self._finished: Finish = ""
        self._detokenizer = Detokenizer(
            tokenizer, skip_special_tokens=skip_special_tokens, whole_graphemes=whole_graphemes
        )
        self._stops = StopSequences(stop)
        self._chunker = Chunker(
            chunk_size,
            priority_threshold=priority_threshold,
            max_wait=max_wait,
            filler_wait=filler_wait,
            sync_interval=sync_interval,
            max_chars=max_chars,
        )
        self._fed: deque[Step] = deque()  # steps whose tokens were not taken yet
        self._out: list[Token] = []
        self._over = False

    @property
    def finished(self) -> Finish:
        """Why the answer ended; "" while it goes on."""
        return self._finished

    @property
    def stats(self) -> ChunkStats:
        """What the chunker did so far."""
        return self._chunker.stats

    @property
    def stopped_by(self) -> str | None:
        """The stop sequence that ended the answer."""
        return self._stops.hit

    @property
    def held(self) -> int:
        """Tokens that may not leave yet."""
        return self._chunker.held

    def feed(self, step: Step, now: float) -> None:
        """The next step. One that comes after the end is dropped (W3)."""
        if self._over:
            return
        stops = self._stops
        has_token = step.token_id >= 0
        text = stops.push(self._detokenizer.push(step.token_id)) if has_token else ""
        if step.finish and stops.hit is None:
            text += stops.push(self._detokenizer.flush())
            if stops.hit is None:
                text += stops.flush()
        ends = bool(step.finish) or stops.hit is not None
        if has_token or text:
            self._fed.append(step)
            self._out += self._chunker.feed(Token(text, last=ends), now)
        elif ends:
            self._end()
        if ends:
            self._over = True
            self._finished = "stop" if stops.hit is not None else step.finish

    def next_timer(self) -> float | None:
        """When `handle_timer` is to be called, if nothing is fed before."""
        return self._chunker.next_timer()

    def handle_timer(self, now: float) -> None:
        """The time of `next_timer` has come."""
        self._out += self._chunker.handle_timer(now)

    def take(self) -> list[Token]:
        """What may leave now, all of it at one instant."""
        out, self._out = self._out, []
        fed = self._fed
        self.steps = [fed.popleft() for _ in out]
        return out

    def flush(self) -> None:
        """The answer breaks off: what is held may leave, and nothing follows. `finished` stays as it is."""
        if self._over:
            return
        self._over = True
        text = self._stops.push(self._detokenizer.flush())
        if self._stops.hit is None:
            text += self._stops.flush()
        self._out += self._chunker.flush()
        if text and self._fed:
            # Its ids have their tokens already; some of those may have left, so it needs one of its own.
            self._fed.append(self._fed[-1])
            self._out.append(Token(text))
        elif text:
            self._fed.append(self.steps[-1] if self.steps else Step(-1))
            self._out.append(Token(text))

    def sync_every(self, tokens: int) -> None:
        """The tokens between two sync marks (T8), from the next border between two chunks on.

        Raises:
            UsageError: below 1.
        """
        self._chunker.configure(sync_interval=tokens)

    def configure(self, **changes: Any) -> None:
        """Other settings from the next border between two chunks on (C9): `chunk_size`, `priority_threshold`,
        `max_wait`, `filler_wait`, `sync_interval`, `max_chars`.

        Raises:
            UsageError: an unknown name, or a value out of its range; then nothing changes.
        """
        if "size" in changes:
            raise UsageError("configure(size=...) is unknown; a flow calls it chunk_size")
        if "chunk_size" in changes:
            changes["size"] = changes.pop("chunk_size")
        self._chunker.configure(**changes)

    def _end(self) -> None:
        """The end came without a token: the last that is held says it (W3)."""
        out = self._chunker.flush()
        if out:
            out[-1] = Token(out[-1].text, True, out[-1].lane)
        self._out += out
