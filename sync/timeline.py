"""A drift report as one page: figures, a timeline, the faults, and every picture in a table. Pure.

The page is one file without scripts and without anything to load; it follows the reader's light or dark scheme.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from multimodal.events import CueMissed
from multimodal.sync.drawing import draw
from multimodal.sync.drift import DriftReport, drift_report
from multimodal.sync.faults import Fault
from multimodal.sync.log import SyncLog
from multimodal.sync.report import VANTAGES, RevealFigures, Vantage
from multimodal.sync.verdict import faults_of

__all__ = ["timeline_html"]

_STYLE = """
:root{color-scheme:light dark;--bg:#fbfaf8;--card:#fff;--fg:#1f1d1a;--muted:#6c665d;--line:#e4dfd6;--faint:#efebe4;
--blue:#1f6feb;--green:#1a7f37;--violet:#8250df;--amber:#bf8700;--red:#cf222e}
@media(prefers-color-scheme:dark){:root{--bg:#151412;--card:#1d1b19;--fg:#ece8e1;--muted:#a19a8f;--line:#38342f;
--faint:#282521;--blue:#6cb0ff;--green:#56d364;--violet:#c297ff;--amber:#e3b341;--red:#ff7b72}}
*{box-sizing:border-box}html{scroll-padding-block:30vh}
body{margin:0;background:var(--bg);color:var(--fg);font:15px/1.5 system-ui,sans-serif}
main{max-width:1400px;margin:auto;padding:28px clamp(16px,3vw,40px) 60px}
h1{font-size:1.5rem;line-height:1.25;margin:0 0 .2em}h2{font-size:1.05rem;margin:2em 0 .6em}
.sub{color:var(--muted);margin:0;overflow-wrap:anywhere}
.verdict{font-weight:600}.verdict.ok{color:var(--green)}.verdict.no{color:var(--red)}
dl{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:10px;margin:20px 0 0}
dl div{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:10px 14px}
dt{color:var(--muted);font-size:.8rem}dd{margin:0;font-size:1.25rem;font-variant-numeric:tabular-nums}
dd small{display:block;font-size:.78rem;color:var(--muted)}
.legend{display:flex;flex-wrap:wrap;gap:6px 18px;color:var(--muted);font-size:.82rem;
margin:0 0 10px;padding:0;list-style:none}
.legend svg{width:22px;height:20px;vertical-align:-5px;margin-right:5px}
.scroll{display:flex;overflow:auto;border:1px solid var(--line);border-radius:10px;background:var(--card);
max-height:85vh;scroll-padding-inline:30% 50%}
.labels{position:sticky;left:0;flex:0 0 auto;width:clamp(104px,20vw,196px);background:var(--card);z-index:1;
border-right:1px solid var(--line)}
.labels div{position:absolute;left:12px;right:8px;transform:translateY(-50%);line-height:1.2;font-size:12px}
.labels b{display:block;font-weight:600;overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
.labels span{display:block;color:var(--muted);font-size:10px;overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
.scroll svg{flex:none;display:block}
svg text{fill:var(--fg);font:12px system-ui,sans-serif}
svg .time,svg .small{fill:var(--muted);font-size:11px}svg .time{text-anchor:middle}
.turn{stroke:var(--fg);stroke-width:1.5}.grid{stroke:var(--faint)}.lane{stroke:var(--faint)}
.mark{stroke:var(--muted);stroke-width:1.5}.tick{stroke:var(--blue);stroke-width:2}.tick.unseen{stroke:var(--muted)}
.wait{stroke:var(--line);stroke-width:2;stroke-dasharray:3 3}.to{stroke:var(--violet);stroke-opacity:.35}
.request{fill:var(--card);stroke:var(--muted);stroke-width:1.5}.bytes{fill:var(--muted)}
.ready{fill:var(--green)}.ready.bad,.swap.bad{fill:var(--red)}
.reveal{fill:var(--violet)}.reveal.preview{fill:var(--card);stroke:var(--violet);stroke-width:2}
.painted{fill:var(--blue)}.swap{fill:var(--green)}.hold{fill:var(--amber);fill-opacity:.35}
.missed{stroke:var(--red);stroke-width:2.5;fill:none}svg .bad{fill:var(--red);font-size:11px}
.fault{stroke:var(--red);stroke-dasharray:4 3}.flag{fill:var(--red)}
svg .flagged{fill:var(--card);font-size:11px;font-weight:700;text-anchor:middle}
a{color:inherit}
.faults{padding-left:1.6em}.faults li{margin:.5em 0}.faults li:target{outline:2px solid var(--red);outline-offset:4px}
.faults p{margin:0}.faults p+p{color:var(--muted);font-size:.88rem}
.table{overflow-x:auto}table{border-collapse:collapse;font-size:.86rem;font-variant-numeric:tabular-nums;width:100%}
th,td{text-align:right;padding:5px 8px;border-bottom:1px solid var(--line);white-space:nowrap}
th{color:var(--muted);font-weight:600}th:nth-child(-n+2),td:nth-child(-n+2){text-align:left}
td:nth-child(2){color:var(--muted);max-width:19em;overflow:hidden;text-overflow:ellipsis}
pre{white-space:pre-wrap;background:var(--card);border:1px solid var(--line);border-radius:10px;padding:14px;
font-size:13px}
:focus-visible{outline:2px solid var(--blue);outline-offset:2px}
"""
_SIGNS = (
    ("requested", '<circle class="request" cx="11" cy="10" r="4"/>'),
    ("bytes there", '<rect class="bytes" x="7" y="6" width="8" height="8"/>'),
    ("decoded by the viewer", '<circle class="ready" cx="11" cy="10" r="5"/>'),
    ("revealed", '<path class="reveal" d="M11 3l7 7l-7 7l-7 -7z"/>'),
    ("revealed as preview", '<path class="reveal preview" d="M11 3l7 7l-7 7l-7 -7z"/>'),
    ("picture behind a preview", '<path class="swap" d="M5 16l6 -12l6 12z"/>'),
    ("painted", '<rect class="painted" x="9.5" y="0" width="3" height="20"/>'),
    ("hold", '<rect class="hold" x="2" y="2" width="18" height="16"/>'),
    ("missed", '<path class="missed" d="M6 5l10 10m0 -10l-10 10"/>'),
    ("fault", '<path class="flag" d="M1 3h20v14h-20z"/><text class="flagged" x="11" y="14">1</text>'),
)


def timeline_html(log: SyncLog, preset: str = "default") -> str:
    """The page of a recording, as one HTML document.

    Args:
        log: what was recorded.
        preset: by which limits its faults are judged (`multimodal.sync.verdict.faults_of`).

    Raises:
        UsageError: an unknown preset.
    """
    faults, report = faults_of(log, preset), drift_report(log)
    drawing = draw(log, faults)
    name = log.source.rsplit("/", 1)[-1] or (log.start.sid if log.start else "a tour")
    title = f"{escape(name)}: drift timeline"
    labels = "".join(
        f'<div style="top:{y:.0f}px"><b>{escape(text)}</b><span>{escape(remark)}</span></div>'
        for y, text, remark in drawing.labels
    )
    legend = "".join(f'<li><svg aria-hidden="true">{sign}</svg>{what}</li>' for what, sign in _SIGNS)
    return "\n".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width,initial-scale=1">',
            # Whatever a recording holds is escaped; this makes sure that nothing of it could load or run either.
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
            f"<title>{title}</title><style>{_STYLE}</style></head><body><main>",
            f"<h1>{title}</h1>",
            f'<p class="sub">{escape(_about(log))}</p>',
            _verdict(faults, preset),
            f"<dl>{''.join(_tiles(report))}</dl>",
            f'<h2>Timeline</h2><ul class="legend">{legend}</ul>',
            '<div class="scroll" tabindex="0" role="region" aria-label="Timeline, scrolls sideways">',
            f'<div class="labels" style="height:{drawing.height_px:.0f}px">{labels}</div>',
            drawing.svg,
            "</div>",
            _fault_list(log, faults),
            _table(log, report),
            f"<h2>All figures</h2><pre>{escape(report.text())}</pre>",
            "</main></body></html>",
        ]
    )


def _about(log: SyncLog) -> str:
    start = log.start
    parts = [f"stream {start.sid}, a sync mark every {start.sync_interval} tokens"] if start else []
    parts.append(f"{log.tokens} tokens, {(log.events[-1].pts_ms if log.events else 0) / 1000:.1f} s")
    offset = log.base.offset(log.pings[-1].viewer_ms) if log.pings else None
    if offset is not None:
        parts.append(f"viewer's times by {len(log.pings)} pings, ±{offset.uncertainty_ms:.1f} ms")
    elif log.painted and log.base.at(0.0) is not None:
        parts.append("no pings recorded: viewer's times are drawn as if the fastest event had needed no time")
    elif log.painted:
        parts.append("neither pings nor arrivals recorded: the viewer's times cannot be drawn")
    if log.truncated:
        parts.append(log.truncated)
    return "; ".join(parts)


def _verdict(faults: Sequence[Fault], preset: str) -> str:
    if not faults:
        return f'<p class="verdict ok">In sync by the preset {escape(preset)}.</p>'
    count = "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
    return f'<p class="verdict no">{count} by the preset {escape(preset)}.</p>'


def _tiles(report: DriftReport) -> Iterable[str]:
    def tile(name: str, value: str, remark: str = "") -> str:
        return f"<div><dt>{name}</dt><dd>{value}<small>{escape(remark)}</small></dd></div>"

    missed = ", ".join(f"{reason} {count}" for reason, count in sorted(report.missed.items()))
    yield tile("Pictures shown", f"{report.reveals_shown} of {report.reveals_expected}", f"missed: {missed or 'none'}")
    if report.token_drift_max is not None:
        yield tile("Token drift", f"{report.token_drift_max} tokens", "at most, anchor to mark")
    if report.skew_ms:
        vantage, spread = list(report.skew_ms.items())[-1]
        doubt = report.skew_uncertainty_ms.get(vantage, 0.0)
        yield tile(
            "Skew, p95", f"{spread.p95 or 0:+.1f} ms", f"as {vantage}, max {spread.max or 0:+.1f}, ±{doubt:.1f} ms"
        )
    if report.same_frame_share is not None:
        yield tile("Same frame", f"{report.same_frame_share:.1%}", f"of {report.judged} judged pictures")
    if report.drift_ms_per_minute is not None:
        error = report.drift_error_ms_per_minute
        noise = "too few pictures for a standard error" if error is None else f"per minute, standard error {error:.1f}"
        yield tile("Drift", f"{report.drift_ms_per_minute:+.1f} ms", noise)
    if report.pace:
        vantage, pace = list(report.pace.items())[-1]
        yield tile("First word", f"{pace.ttft_ms:.0f} ms", f"as {vantage}")
        if pace.itl_ms.p95 is not None:
            jitter = "" if pace.jitter_ms is None else f", jitter {pace.jitter_ms:.1f} ms"
            yield tile("Gap of words, p95", f"{pace.itl_ms.p95:.0f} ms", f"max {pace.itl_ms.max or 0:.0f} ms{jitter}")


def _fault_list(log: SyncLog, faults: Sequence[Fault]) -> str:
    if not faults:
        return ""
    items = "".join(
        f'<li id="fault-{number}"><p><a href="#flag-{number}">{escape(fault.verdict)}</a></p>'
        f"<p>{escape(log.words_around(fault.boundary))} &nbsp; token {fault.boundary}"
        f"{escape(f' ({fault.where})' if fault.where else '')}; {fault.cause}: {escape(fault.why)}</p></li>"
        for number, fault in enumerate(faults, start=1)
    )
    return f'<h2>What went wrong</h2><ol class="faults">{items}</ol>'


def _table(log: SyncLog, report: DriftReport) -> str:
    heads = ["Picture", "Words", "Anchor", "Mark", "Requested", "Ready", "Revealed", "Painted", "Skew", "Same frame"]
    ready = {line.key: line.t_ms for line in reversed(log.ready) if line.ok}
    rows = [(figures.cue, _row(log, figures, ready.get(figures.key))) for figures in report.reveals]
    for missed in log.of(CueMissed):
        cells = [
            missed.key,
            log.words_around(missed.anchor),
            str(missed.anchor),
            "",
            "",
            "",
            f"missed: {missed.reason}",
        ]
        rows.append((missed.cue, [*cells, "", "", ""]))
    if not rows:
        return ""
    body = "".join(
        f'<tr><td><a href="#cue-{cue}">{escape(key)}</a></td>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        + "</tr>"
        for cue, (key, *cells) in rows
    )
    head = "".join(f'<th scope="col">{name}</th>' for name in heads)
    return (
        '<h2>Every picture</h2><div class="table" tabindex="0" role="region" aria-label="Every picture"><table>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _row(log: SyncLog, figures: RevealFigures, ready_ms: float | None) -> list[str]:
    def seconds(ms: float | None, doubt: float | None = None) -> str:
        return "" if ms is None else f"{ms / 1000:.3f} s" + (f" ±{doubt:.1f} ms" if doubt else "")

    assets = log.assets.get(figures.key, ())
    whole = next((asset.pts_ms for asset in assets if asset.variants), None)
    vantage: Vantage | None = next((name for name in reversed(VANTAGES) if name in figures.skew_ms), None)
    skew = "" if vantage is None else f"{figures.skew_ms[vantage]:+.1f} ms ({vantage})"
    same = "held" if figures.apart == "held" else figures.apart.replace("_", " ")
    if not same and figures.same_frame is not None:
        same = "yes" if figures.same_frame else "no"
    return [
        figures.key,
        log.words_around(figures.anchor),
        str(figures.anchor),
        f"{figures.mark} (+{figures.token_drift})",
        seconds(assets[0].pts_ms if assets else None),
        seconds(whole if ready_ms is None else ready_ms),
        seconds(figures.at_ms.get("emitted")),
        seconds(figures.at_ms.get("painted"), figures.at_uncertainty_ms.get("painted")),
        skew,
        same,
    ]
