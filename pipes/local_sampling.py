"""Which token comes next: transformers' processors, one sampler for each answer, many answers at once.

A row's choice depends on its own logits, its own tokens and its own generator, never on its neighbours' (E5).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from multimodal.errors import PipeError
from multimodal.pipes.generation import Finish, GenerationRequest, Step

if TYPE_CHECKING:
    from torch import Generator, Tensor

    _Drawn = dict[tuple[int, int, int], tuple[Tensor, Tensor]]

__all__ = ["BadLogitsError", "Sampler", "choose_rows", "try_rows"]


class BadLogitsError(PipeError):
    """The model gave logits that no token can be chosen from; raised before any row was changed.

    Args:
        rows: the rows they are in, counted as given.
    """

    def __init__(self, rows: Sequence[int]) -> None:
        self.rows = tuple(rows)
        which = ", ".join(map(str, self.rows))
        super().__init__(
            f"the model's logits are not finite (row {which} of the batch); its weights or its dtype are at fault"
        )


class Sampler:
    """Chooses the tokens of one answer; the names, the meanings and the order are transformers' own.

    Under a seed it draws exactly as `torch.manual_seed(seed); model.generate(ids, do_sample=True, ...)` does: one
    `torch.multinomial` a step over the whole vocabulary, on a generator of its own. For a row of a group
    (`Sampling.rows`) it draws as the rows of one such call do.

    Args:
        request: its sampling, end tokens and limits.
        prompt_ids: what the repetition penalty counts as said: the prompt; for seq2seq the decoder's start.
    """

    def __init__(self, request: GenerationRequest, prompt_ids: Sequence[int] = ()) -> None:
        self.request = request
        self.count = 0
        """Tokens chosen."""
        self._how = request.sampling
        self._ids = set(prompt_ids) if request.sampling.repetition_penalty != 1.0 else set()
        self._said: Tensor | None = None
        self._generator: Generator | None = None
        how = self._how
        self._plain = (
            how.greedy
            and how.repetition_penalty == 1.0
            and request.logprobs is None
            and not (request.min_new_tokens and request.eos_ids)
        )

    @property
    def plain(self) -> bool:
        """The likeliest token is all that is asked for."""
        return self._plain

    def choose(self, logits: Tensor, now: float = 0.0) -> Step:
        """The next token, from one row of logits.

        Args:
            logits: of the whole vocabulary; they are not changed.
            now: what the step is stamped with.

        Raises:
            BadLogitsError: nothing can be chosen from them.
        """
        return choose_rows([self], logits.reshape(1, -1), now)[0]

    def scores(self, logits: Tensor) -> Tensor:
        """The logits after all processors; tokens that may not come are -inf.

        Args:
            logits: [rows, vocabulary] in float32; they are not changed.
        """
        import torch

        how, request = self._how, self.request
        if how.repetition_penalty != 1.0:
            said = self._all_said(logits)
            at = logits[:, said]
            logits = logits.clone()
            logits[:, said] = torch.where(at < 0, at * how.repetition_penalty, at / how.repetition_penalty)
        if request.eos_ids and self.count < request.min_new_tokens:
            logits = logits.clone()
            logits[:, [each for each in request.eos_ids if each < logits.shape[-1]]] = -torch.inf
        if how.greedy:
            return logits
        if how.temperature != 1.0:
            logits = logits / how.temperature
        if how.top_k:
            kth = logits.topk(min(how.top_k, logits.shape[-1])).values[..., -1, None]
            logits = logits.masked_fill(logits < kth, -torch.inf)
        if how.top_p < 1.0:
            # Ascending, as transformers does, so that ties and rounding fall alike.
            ordered, where = logits.sort(descending=False)
            out = ordered.softmax(-1).cumsum(-1) <= 1 - how.top_p
            out[..., -1:] = False
            logits = logits.masked_fill(out.scatter(-1, where, out), -torch.inf)
        return logits

    def _all_said(self, like: Tensor) -> Tensor:
        import torch

        if self._said is None:
            self._said = torch.tensor(sorted(self._ids), dtype=torch.long, device=like.device)
        return self._said

    def _own(self, like: Tensor) -> Generator:
        import torch

        if self._generator is None:
            self._generator = torch.Generator(device=like.device)
            if self._how.seed is None:
                self._generator.seed()
            else:
                self._generator.manual_seed(self._how.seed)
        return self._generator

    def _noise(self, probs: Tensor, drawn: _Drawn) -> Tensor:
        """What `torch.multinomial` divides by; rows of one group share a draw, as they do in one generate call.

        A generator's state follows from the seed and the number of steps alone, so that a row which lags behind its
        group draws the same numbers later by itself.
        """
        import torch

        how, generator = self._how, self._own(probs)
        shared = (how.seed, how.rows, self.count) if how.seed is not None and how.rows > 1 else None
        if shared is not None and shared in drawn:
            noise, state = drawn[shared]
            generator.set_state(state)
        else:
            noise = torch.empty((how.rows, probs.shape[-1]), dtype=probs.dtype, device=probs.device)
            noise.exponential_(1, generator=generator)
            if shared is not None:
                drawn[shared] = noise, generator.get_state()
        return noise[how.row : how.row + 1]

    def _pick(self, scores: Tensor, drawn: _Drawn) -> int:
        if self._how.greedy:
            return int(scores.argmax(-1))
        probs = scores.softmax(-1)
        return int((probs / self._noise(probs, drawn)).argmax(-1))

    def _step(self, token: int, scores: Tensor | None, now: float) -> Step:
        """Count the token and say what it is."""
        import torch

        self.count += 1
        finish: Finish = ""
        if token in self.request.eos_ids:
            finish = "stop"
        elif self.count >= self.request.max_new_tokens:
            finish = "length"
        if self._how.repetition_penalty != 1.0 and token not in self._ids:
            self._ids.add(token)
            if self._said is not None:
                self._said = torch.cat([self._said, self._said.new_tensor([token])])
        if self.request.logprobs is None or scores is None:
            return Step(token, now, finish)
        logs = scores.log_softmax(-1)[0]
        values, ids = logs.topk(min(self.request.logprobs, logs.shape[-1]))
        finite = [(int(i), float(v)) for i, v in zip(ids, values, strict=True) if v > -torch.inf]
        return Step(token, now, finish, float(logs[token]), tuple(finite))


def choose_rows(samplers: Sequence[Sampler], logits: Tensor, now: float = 0.0) -> list[Step]:
    """The next token of every row; one pass over the logits when all rows are greedy.

    Args:
        samplers: one for each row.
        logits: [rows, vocabulary]; they are not changed.
        now: what the steps are stamped with.

    Raises:
        BadLogitsError: some rows have logits nothing can be chosen from; no sampler was changed, so that the other rows
            can be chosen from by themselves.
    """
    logits, likeliest, bad = _likeliest(logits)
    if bad:
        raise BadLogitsError(bad)
    drawn: _Drawn = {}
    return [
        _choose_row(sampler, logits[row : row + 1], likeliest[row], drawn, now) for row, sampler in enumerate(samplers)
    ]


def try_rows(samplers: Sequence[Sampler], logits: Tensor, now: float = 0.0) -> list[Step | PipeError]:
    """As `choose_rows`, with the error in the place of the step of each row that failed: the others have theirs.

    Args:
        samplers, logits, now: as there.
    """
    logits, likeliest, bad = _likeliest(logits)
    drawn: _Drawn = {}
    made: list[Step | PipeError] = []
    for row, sampler in enumerate(samplers):
        if row in bad:
            made.append(BadLogitsError([row]))
            continue
        try:
            made.append(_choose_row(sampler, logits[row : row + 1], likeliest[row], drawn, now))
        except Exception as error:
            # Of every kind: a row's settings are its own, and so is what comes of them (E5).
            failure = PipeError(f"choosing the next token failed: {type(error).__name__}: {error}")
            failure.__cause__ = error
            made.append(failure)
    return made


def _likeliest(logits: Tensor) -> tuple[Tensor, list[int], list[int]]:
    """The logits in float32, the likeliest token of each row, and the rows nothing can be chosen from."""
    import torch

    with torch.no_grad():
        logits = logits.float()
        best = logits.max(-1)
        return logits, best.indices.tolist(), (~best.values.isfinite()).nonzero().flatten().tolist()


def _choose_row(sampler: Sampler, logits: Tensor, likeliest: int, drawn: _Drawn, now: float) -> Step:
    import torch

    if sampler.plain:
        return sampler._step(likeliest, None, now)
    with torch.no_grad():
        scores = sampler.scores(logits)
        return sampler._step(sampler._pick(scores, drawn), scores, now)
