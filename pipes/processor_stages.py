"""Which settings an answer runs with: the processor's own, its stage's, and what the application changed meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from multimodal.errors import UsageError
from multimodal.pipes.callbacks import Callbacks
from multimodal.pipes.processor_figures import Answers
from multimodal.pipes.processor_source import Messages
from multimodal.pipes.settings import TextSettings
from multimodal.pipes.stages import Stage, StageDetector
from multimodal.pipes.watch import AnswerWatch

__all__ = ["StageDesk"]


class StageDesk:
    """The settings of a processor. Changes may come from any thread.

    Args:
        settings: what it was made with.
        stages: its stage table; None = there are no stages.
        answers: those that run.

    Raises:
        UsageError: a table that `StageDetector` refuses.
    """

    def __init__(self, settings: TextSettings, stages: Mapping[str, Stage] | None, answers: Answers) -> None:
        if stages is not None and not (
            isinstance(stages, Mapping) and all(isinstance(each, Stage) for each in stages.values())
        ):
            raise UsageError(
                f"stages={stages!r} is no table of stages; give {{name: Stage(...)}} such as STAGES, or None"
            )
        self.settings = settings
        self._stages = None if stages is None else StageDetector(stages).stages
        self._answers = answers
        self._set: Stage | None = None
        self._pinned: dict[str, Any] = {}

    def watch(self, dialogue: Messages | None, callbacks: Callbacks) -> AnswerWatch:
        """For an answer that begins: in the stage that was set, else in that of its dialogue, else in none."""
        detector, previous = None, ""
        stage = self._set
        if dialogue is not None and self._stages is not None:
            detector = StageDetector(self._stages)
            previous = _follow(detector, dialogue)
            stage = detector.set(self._set.name) if self._set is not None else detector.stage
        return AnswerWatch(
            self.settings if stage is None else self.at(stage),
            detector=detector,
            stage="" if stage is None else stage.name,
            previous=previous,
            at=self.at,
            callbacks=callbacks,
            ledger=self._answers,
        )

    def at(self, stage: Stage) -> TextSettings:
        """The settings in a stage: what the application changed since it last set one counts over the table."""
        return self.settings.at(stage).changed(self._pinned)

    def update(self, changes: dict[str, Any]) -> None:
        """Other settings, for all."""
        self.settings = self.settings.changed(changes)
        self._pinned |= changes
        for watch in self._answers.running:
            watch.change(watch.settings.changed(changes))

    def set(self, name: str | None) -> None:
        """A stage for all; None = each dialogue's own."""
        if self._stages is None:
            raise UsageError("this processor has no stages; make it with stages=STAGES or a table of your own")
        if name is not None and name not in self._stages:
            raise UsageError(f"stage {name!r} is unknown; there are {', '.join(self._stages)}")
        self._set = None if name is None else self._stages[name]
        self._pinned = {}
        for watch in self._answers.running:
            stage = self._set
            if watch.detector is not None:
                stage = watch.detector.set(name)
            watch.change(self.settings if stage is None else self.at(stage), "" if stage is None else stage.name)


def _follow(detector: StageDetector, dialogue: Messages) -> str:
    """Hear a dialogue up to the answer that begins; gives the stage of the turn before, "" = there was none."""
    previous = ""
    asked = ""
    for message in dialogue:
        text = message.get("content", "")
        text = text if isinstance(text, str) else ""
        if message.get("role") == "user":
            asked += text
        elif message.get("role") == "assistant":
            detector.asked(asked)
            previous, asked = detector.hear(text).name, ""
    detector.asked(asked)
    return previous
