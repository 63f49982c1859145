"""Which engine runs a model, and one of it for all who use that model in this process."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

from multimodal.errors import UsageError
from multimodal.pipes.engine import Engine, EngineStats, Mailbox

if TYPE_CHECKING:
    from multimodal.pipes.generation import GenerationRequest
    from multimodal.pipes.local_loading import LocalModel

__all__ = ["ENGINES", "EngineKind", "LocalEngine", "SharedEngine", "make_engine", "shared_engine"]

EngineKind = Literal["auto", "manager", "steps"]
ENGINES: tuple[EngineKind, ...] = ("auto", "manager", "steps")


class LocalEngine(Engine, Protocol):
    """E1-E6, over a model of this process; `why` says what decided for this engine."""

    why: str

    def configure(self, **settings: Any) -> None: ...

    def warm_up(self, count: int) -> int: ...


def make_engine(local: LocalModel, engine: EngineKind = "auto", **settings: Any) -> LocalEngine:
    """An engine for a model; its `why` says what decided.

    Args:
        local: the model.
        engine: "manager" = transformers' continuous batching; "steps" = the step loop over a shared cache; "auto" =
            the manager, which is kept by many hands, where it can run the model and the settings; else the step loop.
        settings: of the engine: max_rows, pool_bytes, keep_free, reclaim_policy, admission; of the step loop only:
            governor.

    Raises:
        UsageError: an unknown engine or setting, a value out of its range, or "manager" for a model it cannot run.
    """
    if engine not in ENGINES:
        raise UsageError(f"engine={engine!r} is none of {', '.join(ENGINES)}")
    from multimodal.pipes.local_manager_fit import manager_refuses

    why = "asked for"
    if engine == "auto":
        reason = manager_refuses(local)
        if reason is None and settings.get("reclaim_policy") is not None:
            reason = "transformers' manager has a reclaim policy of its own, and one was given"
        if reason is None and settings.get("governor") is not None:
            reason = "transformers' manager rests for no governor, and one was given"
        engine = "manager" if reason is None else "steps"
        why = reason or "transformers' continuous batching can run this model"
    made: Any
    try:
        if engine == "manager":
            from multimodal.pipes.local_manager import ManagerEngine

            made = ManagerEngine(local, **settings)
        else:
            from multimodal.pipes.local_steps import StepEngine

            made = StepEngine(local, **settings)
    except TypeError as error:
        if "unexpected keyword argument" not in str(error):
            raise
        raise UsageError(f"engine={engine!r} has no such setting: {str(error).rsplit(' ', 1)[-1]}") from error
    made.why = why
    return cast(LocalEngine, made)


class SharedEngine:
    """A hold on an engine that others may hold, too: closing it lets go, and the last one to let go closes the engine.

    Args:
        shared: what is held.
    """

    def __init__(self, shared: _Shared) -> None:
        self._shared = shared
        self._closed = False

    @property
    def why(self) -> str:
        """What decided for this engine."""
        return self.engine.why

    @property
    def engine(self) -> LocalEngine:
        """The engine itself."""
        return self._shared.engine

    def submit(self, request: GenerationRequest, mailbox: Mailbox) -> None:
        """E1.

        Raises:
            UsageError: this hold was closed, or what the engine refuses.
        """
        if self._closed:
            raise UsageError("this hold on the engine is closed; take another with shared_engine")
        self.engine.submit(request, mailbox)

    def configure(self, **settings: Any) -> None:
        """Settings from the next step on, for all who share the engine."""
        self.engine.configure(**settings)

    def warm_up(self, count: int) -> int:
        """Run so many short prompts; gives how many were run."""
        return self.engine.warm_up(count)

    def stats(self) -> EngineStats:
        """Of the engine, whoever used it."""
        return self.engine.stats()

    def close(self) -> None:
        """Let go. The last one ends the answers under way (E6); twice is once."""
        with _lock:
            if self._closed:
                return
            self._closed = True
            self._shared.holds -= 1
            last = self._shared.holds == 0
            if last:
                del _engines[self._shared.key]
        if last:
            self.engine.close()

    def __del__(self) -> None:
        # Dropped without close: it holds nothing any more. At the end of the process the engine ends itself.
        if not self._closed and _lock is not None:
            self.close()


class _Shared:
    def __init__(self, key: _Key, local: LocalModel, engine: LocalEngine, settings: dict[str, Any]) -> None:
        self.key, self.engine, self.settings = key, engine, settings
        # Its model is in the key by its id, which must not become another's.
        self.local = local
        self.holds = 0


_Key = tuple[int, str | None, str]
# Reentrant: a hold may be dropped, and so closed, by the collector while another is being taken.
_lock = threading.RLock()
_engines: dict[_Key, _Shared] = {}


def shared_engine(local: LocalModel, engine: EngineKind = "auto", **settings: Any) -> SharedEngine:
    """The one engine of this process for a model, its quantisation and a kind; made by the first who asks.

    Args:
        local: the model; two of them over one model object share the engine.
        engine: as for `make_engine`.
        settings: the same, for the first; later ones must agree with what is there in those they give, or
            `configure` the engine for all.

    Raises:
        UsageError: as `make_engine`, or settings that differ from those of the engine that runs.
    """
    key = (id(local.model), getattr(local, "quant_mode", None), engine)
    with _lock:
        shared = _engines.get(key)
        if shared is None:
            shared = _Shared(key, local, make_engine(local, engine, **settings), settings)
            _engines[key] = shared
        else:
            differ = sorted(name for name in settings if shared.settings.get(name) != settings[name])
            if differ:
                raise UsageError(
                    f"this model's engine runs already, with other {', '.join(differ)}; leave them out, or change "
                    "them for all with configure(...)"
                )
        shared.holds += 1
        return SharedEngine(shared)
