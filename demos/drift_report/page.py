"""The report's page: what is compared, in a table, in lanes on one time axis, and timeline beside timeline. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from importlib import resources
from string import Template

import msgspec

from multimodal.demos.drift_report.play import Condition
from multimodal.demos.product_tour.tour import Tour
from multimodal.events import CueMissed
from multimodal.sync.drift import DriftReport, Pair, Spread, drift_report, pairs
from multimodal.sync.log import SyncLog
from multimodal.sync.pace import moment
from multimodal.sync.timeline import timeline_html
from multimodal.sync.verdict import faults_of

__all__ = ["CSP", "files_of"]

# `file:` for the report that was written to disk, where a page has no origin that 'self' could mean.
CSP = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-src 'self' file:; base-uri 'none'"
DELAY_MS = 300.0
"""Words' delay that fills a lane; the lanes share one scale, so that they can be compared."""
AXIS_S = (1, 2, 5, 10, 20, 30, 60, 120, 300)


class _Played(msgspec.Struct, frozen=True):
    """A condition and what came of it."""

    name: str
    condition: Condition
    log: SyncLog
    report: DriftReport
    delays: list[tuple[float, float]]
    faults: int

    @property
    def end_ms(self) -> float:
        return max(self.log.events[-1].pts_ms, *(at for at, _ in self.delays)) if self.delays else 0.0


def files_of(tour: Tour, conditions: Mapping[str, Condition], logs: Mapping[str, SyncLog]) -> dict[str, bytes]:
    """The report by file name: `index.html`, and for each condition its timeline and its recording.

    Args:
        tour: what was told.
        conditions: by name.
        logs: the recordings, by the same names.
    """
    played = [_judged(name, condition, logs[name]) for name, condition in conditions.items()]
    files = {"index.html": _index(tour, played).encode()}
    for item in played:
        files[f"{item.name}.html"] = timeline_html(item.log).encode()
        files[f"{item.name}.jsonl"] = b"".join(item.log.lines())
    return files


def _judged(name: str, condition: Condition, log: SyncLog) -> _Played:
    painted = [(text.pts_ms, moment(log, text, "painted")) for text in log.texts]
    # Alignment by pings may put a paint before its emission, by less than its uncertainty.
    delays = [(at.ms, max(0.0, at.ms - pts_ms)) for pts_ms, at in painted if at is not None]
    return _Played(name, condition, log, drift_report(log), delays, len(faults_of(log)))


def _index(tour: Tour, played: list[_Played]) -> str:
    files = resources.files(__package__ or "multimodal.demos.drift_report")
    end_ms = max(item.end_ms for item in played) or 1.0
    start = played[0].log.start
    return Template(files.joinpath("index.html").read_text(encoding="utf-8")).substitute(
        csp=CSP,
        style=files.joinpath("style.css").read_text(encoding="utf-8"),
        shop=escape(tour.name),
        tokens=str(len(tour.plan.tokens)),
        pictures=str(len(tour.plan.cues)),
        seconds=f"{played[0].end_ms / 1000:.0f}",
        interval=str(start.sync_interval if start else 0),
        delay=f"{DELAY_MS:g}",
        rows="\n".join(_row(item) for item in played),
        axis=_axis(end_ms),
        lanes="\n".join(_lane(item, end_ms) for item in played),
        frames="\n".join(_frame(item) for item in played),
    )


def _row(item: _Played) -> str:
    report = item.report
    vantage = next(reversed(report.skew_ms), None)
    pace = report.pace.get("painted")
    drift = "–" if report.token_drift_max is None else f"{report.token_drift_max} tokens"
    same = "–" if report.same_frame_share is None else f"{report.same_frame_share:.1%}"
    sync_delay = "–" if pace is None or pace.initial_sync_ms is None else f"{pace.initial_sync_ms / 1000:.2f} s"
    words = Spread.over(delay for _, delay in item.delays)
    judged = f"of {report.judged}" + "".join(f", {count} {why}" for why, count in report.apart.items())
    missed = ", ".join(f"{reason} {count}" for reason, count in sorted(report.missed.items())) or "none missed"
    previews = ("–", "")
    if report.previews:
        previews = (str(report.previews), f"picture {_ms(report.swap_ms.p50)} later")
    verdict = '<td class="ok">in sync</td>'
    if item.faults:
        verdict = f'<td class="no">{item.faults} fault{"" if item.faults == 1 else "s"}</td>'
    cells = [
        (f"{report.reveals_shown} of {report.reveals_expected}", missed),
        (drift, ""),
        (_ms(report.skew_ms[vantage].p95 if vantage else None), vantage or ""),
        (same, judged),
        (sync_delay, ""),
        (_ms(words.p50), f"p95 {_ms(words.p95)}"),
        (str(report.held_ms.count), ""),
        previews,
    ]
    body = "".join(f"<td>{escape(value)}<small>{escape(remark)}</small></td>" for value, remark in cells)
    title = f"{escape(item.condition.title)}<small>{escape(item.condition.about)}</small>"
    return f'<tr><th scope="row"><a href="#{item.name}">{title}</a></th>{body}{verdict}</tr>'


def _ms(value: float | None) -> str:
    return "–" if value is None else f"{value:.0f} ms" if abs(value) < 1000 else f"{value / 1000:.1f} s"


def _axis(end_ms: float) -> str:
    step = next((step for step in AXIS_S if end_ms / 1000 / step <= 8), AXIS_S[-1])
    times = range(0, int(end_ms / 1000) + 1, step)
    # The last one would stand over the edge.
    return "".join(
        f'<text x="{_place(at * 1000, end_ms)}" y="12">{at} s</text>' for at in times if at * 1000 <= end_ms * 0.95
    )


def _lane(item: _Played, end_ms: float) -> str:
    title = f"{escape(item.condition.title)}<small>{escape(item.condition.about)}</small>"
    bars = "".join(f"M{at / end_ms * 1000:.1f} 100v-{min(delay / DELAY_MS, 1) * 100:.1f}" for at, delay in item.delays)
    away = [at.ms for at in (item.log.base.at(seen.t_ms) for seen in item.log.painted if not seen.visible) if at]
    parts = []
    if away:
        width = (max(away) - min(away)) / end_ms
        parts.append(f'<rect class="away" x="{_place(min(away), end_ms)}" y="0" width="{width:.2%}" height="100%"/>')
    parts.append(f'<svg viewBox="0 0 1000 100" preserveAspectRatio="none" y="26" height="30"><path d="{bars}"/></svg>')
    parts += [_sign(item.log, pair, end_ms) for pair in pairs(item.log)]
    parts += [
        f'<text class="missed" x="{_place(event.pts_ms, end_ms)}" y="17">×</text>' for event in item.log.of(CueMissed)
    ]
    about = f"{item.report.reveals_shown} pictures, and the delay of {len(item.delays)} pieces of text"
    return (
        f'<div class="lane"><p>{title}</p><svg class="strip" role="img" aria-label="{escape(about)}">'
        f"{''.join(parts)}</svg></div>"
    )


def _sign(log: SyncLog, pair: Pair, end_ms: float) -> str:
    shown = moment(log, pair.reveal, "painted")
    if shown is None:
        return ""
    at = _place(shown.ms, end_ms)
    if not pair.reveal.preview:
        return f'<circle class="whole" cx="{at}" cy="12" r="5"/>'
    preview = f'<circle class="preview" cx="{at}" cy="12" r="4.5"/>'
    if pair.swap_ms is None:
        return preview
    to = _place(shown.ms + pair.swap_ms, end_ms)
    wait = f'<line class="wait" x1="{at}" x2="{to}" y1="12" y2="12"/>'
    return f'{wait}{preview}<circle class="whole" cx="{to}" cy="12" r="5"/>'


def _place(at_ms: float, end_ms: float) -> str:
    return f"{at_ms / end_ms:.2%}"


def _frame(item: _Played) -> str:
    name, title = escape(item.name), escape(item.condition.title)
    return (
        f'<section class="one" id="{name}"><div class="line"><h3>{title}</h3><p>{escape(item.condition.about)}</p>'
        f'<nav><a href="{name}.html">Open</a><a href="{name}.jsonl" download>Recording</a></nav></div>'
        f'<iframe src="{name}.html" title="Drift timeline: {title}" loading="lazy"></iframe></section>'
    )
