"""An identification as one HTML file: the verdict, what was found and how sure, and images of real against twin."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from pathlib import Path

from twinloop.datasets.commit import write_atomically
from twinloop.identification.choose import Choice
from twinloop.identification.replays import Replay
from twinloop.identification.result import Estimate, Identification
from twinloop.report.identify_plots import draw_corner, draw_replay, draw_spectra
from twinloop.report.quality_page import STYLE

_TONES = {"identifiable": "fine", "weak": "warning", "not identifiable": "blocking"}


def write_identify_page(
    result: Identification, replays: Sequence[Replay], path: str | Path, choice: Choice | None = None
) -> Path:
    """Write the report to one file that needs no other."""
    target = Path(path)
    title = f"Identification of {result.twin.name}"
    corner = draw_corner(result)
    spectra = draw_spectra(list(replays), result) if replays else None
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>",
        f"<title>{_text(title)}</title><style>{STYLE}.wide{{overflow-x:auto}}figure{{margin:1rem 0}}figure img{{max-width:min(100%,860px)}}</style>",
        f"<main><h1>{_text(title)}</h1><div class=soft>version {_text(result.twin.version)}, from {_text(result.base[:12])}; "
        f"{len(result.fitted)} episodes fitted, {len(result.held_out)} held out; "
        f"{'whole episodes' if result.horizon_s is None else f'windows of {result.horizon_s:.2g} s'}</div>",
        _verdict(result),
        _warnings(result),
        f"<h2>Parameters</h2>{_estimates(result.estimates)}",
        _confusions(result),
        _choice(choice),
        f"<h2>Held-out replay error</h2>{_errors(result)}",
        "".join(
            _image(draw_replay(r, result), f"{r.task or 'episode'} ({r.episode[:12]})") for r in replays[:4]
        ),
        _image(spectra, "What is left, by frequency") if spectra else "",
        f"<h2>Posterior</h2>{_image(corner, 'Posterior samples of the least certain parameters; orange is nominal')}"
        if corner
        else "",
        "</main></html>",
    ]
    write_atomically(target, "".join(parts).encode())
    return target


def _verdict(result: Identification) -> str:
    tone, word = ("fine", "Accepted.") if result.gate.accepted else ("blocking", "Rejected.")
    held = f"{min(result.coverage):.0%} to {max(result.coverage):.0%}"
    return (
        f"<div class='verdict {tone}'><b>{word}</b> {_text(result.gate.reason)}. The {result.bands.level:.0%} bands contain "
        f"{held} of held-out readings.</div>"
    )


def _warnings(result: Identification) -> str:
    lines = [*result.warnings, *([f"forced: {result.forced}"] if result.forced else [])]
    return "".join(f"<div class='verdict warning'>{_text(line)}</div>" for line in lines)


def _estimates(estimates: Sequence[Estimate]) -> str:
    rows = "".join(
        f"<tr><td>{_text(e.name)}</td><td class=n>{e.nominal:.4g}</td><td class=n><b>{e.value:.4g}</b></td>"
        f"<td class=n>{e.low:.4g} to {e.high:.4g}</td><td>{_text('' if e.unit == '1' else e.unit)}</td><td>{_text(e.dimension)}</td>"
        f"<td><span class='badge {_TONES[e.status]}'>{e.status}</span>{' at the edge of its range' if e.at_edge else ''}</td></tr>"
        for e in estimates
    )
    head = "<tr><th>parameter<th class=n>nominal<th class=n>value<th class=n>95 % interval<th>unit<th>dimension<th></tr>"
    return f"<div class=wide><table>{head}{rows}</table></div>"


def _confusions(result: Identification) -> str:
    return "".join(
        f"<div class='verdict note'><b>Cannot be told apart:</b> {_text(str(c))}<div class=remedy>{_text(c.remedy)}</div></div>"
        for c in result.confusions
    )


def _choice(choice: Choice | None) -> str:
    if choice is None:
        return ""
    rows = "".join(
        f"<tr><td>{_text(c.name)}{' (chosen)' if c.name == choice.chosen else ''}</td><td class=n>{len(c.parameters)}</td>"
        f"<td class=n>{c.error:.4g}</td><td class=n>{c.behind:+.1%} ± {c.standard_error:.1%}</td></tr>"
        for c in choice.contenders
    )
    head = "<tr><th>model<th class=n>parameters<th class=n>validation error<th class=n>behind the best</tr>"
    return (
        f"<h2>Which model</h2><p>{_text(choice.reason)}.</p><div class=wide><table>{head}{rows}</table></div>"
    )


def _errors(result: Identification) -> str:
    rows = "".join(
        f"<tr><td>{_text(name)}</td><td class=n>{before:.4g}</td><td class=n><b>{after:.4g}</b></td><td>{_text(unit)}</td>"
        f"<td class=n>{covered:.0%}</td><td class=n>{noise:.2g}</td></tr>"
        for (name, (before, after)), unit, covered, noise in zip(
            result.errors_by_channel().items(),
            result.units,
            result.coverage,
            result.sensor_noise,
            strict=True,
        )
    )
    head = "<tr><th>channel<th class=n>nominal<th class=n>calibrated<th>unit (RMS)<th class=n>in band<th class=n>sensor noise</tr>"
    return f"<div class=wide><table>{head}{rows}</table></div>"


def _image(png: bytes, caption: str) -> str:
    data = base64.b64encode(png).decode()
    return f"<figure><img alt='{_text(caption)}' src='data:image/png;base64,{data}'><figcaption class=soft>{_text(caption)}</figcaption></figure>"


def _text(value: str) -> str:
    return html.escape(value, quote=True)
