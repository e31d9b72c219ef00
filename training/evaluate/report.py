"""The report of ``pyanticip evaluate motion``: JSON, Markdown, and HTML with its pictures inside."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyanticip.vocabulary import PARAMETERS
from training.evaluate import plots
from training.evaluate.motion import Drawn
from training.evaluate.shares import RIVALS
from training.report import pages
from training.report.pages import Part, Row, as_markdown

TITLE = "Motion model on people it never saw"


def write(report: Mapping[str, Any], drawn: Drawn, target: Path) -> list[Path]:
    """Write the page, and the numbers beside it.

    Args:
        report: of :func:`training.evaluate.motion.evaluate`.
        drawn: what its pictures need.
        target: see :func:`training.report.pages.write`.
    """
    return pages.write(list(_parts(report, drawn)), report, target, TITLE)


def markdown(report: Mapping[str, Any]) -> str:
    """The tables alone, as Markdown."""
    return as_markdown([*_head(report), *sections(report)])


def sections(report: Mapping[str, Any], names: Sequence[str] | None = None) -> list[Part]:
    """The tables under their titles; only those of some titles, where ``names`` are given."""
    parts: list[Part] = []
    kept = True
    for kind, value in (part for group in _GROUPS for part in group(report)):
        kept = names is None or value in names if kind == "title" else kept
        if kept:
            parts.append((kind, value))
    return parts


def _parts(report: Mapping[str, Any], drawn: Drawn) -> Iterator[Part]:
    yield from _head(report)
    yield "image", ("errors", "Mean absolute error by horizon.", plots.errors(report))
    yield from _errors(report)
    yield "image", ("shares", "Error as a share of the best rival's.", plots.shares(report))
    yield from _shares(report)
    if report["events"]:
        caption = (
            "F1 of onsets by kind of movement (events in brackets). Dotted: 0.80. Black: 95 % intervals. "
            "The detector decides after the event; in hindsight it also says when that was."
        )
        yield "image", ("beat", caption, plots.beat(report["events"]))
    yield from _events(report)
    if report["calibration"]:
        caption = (
            "Reliability of events: areas are shares of the frames, dotted is the base rate; skill is one "
            "minus the Brier score over that of the base rate."
        )
        yield "image", ("reliability", caption, plots.reliability(report["calibration"]))
    yield from _calibration(report)
    caption = f"The commitment gate, reaching {report['gate']['curves']['reach_ms']:.0f} ms ahead."
    yield "image", ("gate", caption, plots.gate(report["gate"]["curves"]))
    yield from _gate(report)
    if report.get("suits"):
        yield "image", ("suits", "Error with fewer joints.", plots.suits(report["suits"], report))
    yield from _suits(report)
    yield from _latency(report)
    yield from _scalars(report)
    if drawn.clips:
        yield "title", "Worst clips"
        for number, (example, said, hold, told) in enumerate(drawn.clips):
            picture = plots.clip(example, said, hold, told)
            yield "image", (f"clip-{number}", f"{example.name}: dots are the decisions.", picture)


def _head(report: Mapping[str, Any]) -> Iterator[Part]:
    yield "title", TITLE
    checkpoint, data = report["checkpoint"], report["data"]
    of = f"set {data['digest'][:12]}"
    yield (
        "text",
        (
            f"Checkpoint {checkpoint['name']}, {checkpoint['parameters']:,} parameters, on {of}. "
            f"{report['split']}: subjects {', '.join(report['subjects'])}; {report['clips']} clips, "
            f"{report['frames']} judged frames. Intervals: 95 %, over subjects and the clips within them."
        ),
    )
    for line in report["warnings"]:
        yield "text", f"Warning: {line}."


def _spread(value: float, low: float, high: float, digits: int = 4) -> str:
    return f"{value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def _errors(report: Mapping[str, Any]) -> Iterator[Part]:
    yield "title", "Parameters"
    yield "text", f"Settings of the rivals: {report['settings']}."
    horizons = [f"{ms} ms" for ms in report["horizons_ms"]]
    rows: list[Row] = [["mean over the eight", *horizons]]
    for who, name in {"model": "model", **RIVALS}.items():
        spread = report["interval"][who]
        cells = zip(report["mean"][who], spread["low"], spread["high"], strict=True)
        rows.append([name, *(_spread(*cell) for cell in cells)])
    margin = report["interval"]["margin"]
    ends = zip(margin["low"], margin["high"], strict=True)
    rows.append(["best rival - model", *(f"[{low:+.4f}, {high:+.4f}]" for low, high in ends)])
    yield "table", rows
    yield "text", "Model / hold / extrapolate / track; bold where the model is better than all three:"
    rows = [["parameter", *horizons]]
    tables = report["per_parameter"]
    for name in PARAMETERS:
        line = [name]
        for i in range(len(horizons)):
            ours, *others = (tables[who][name][i] for who in ("model", *RIVALS))
            mark = "**" if ours < min(others) else ""
            line.append(f"{mark}{ours:.4f}{mark} / " + " / ".join(f"{value:.4f}" for value in others))
        rows.append(line)
    yield "table", rows


def _shares(report: Mapping[str, Any]) -> Iterator[Part]:
    yield (
        "text",
        (
            "Error as a share of the best rival's, another one for every parameter at every horizon, "
            "averaged over the eight: the ratio of the two means, and the mean of the eight ratios."
        ),
    )
    rows: list[Row] = [["ahead", "at most", "ratio of means", "", "mean of ratios", ""]]
    for share in report["shares"]:
        line = [f"{share['horizon_ms']} ms", f"{share['bar']:.2f}"]
        for reading in ("ratio_of_means", "mean_of_ratios"):
            one = share[reading]
            line += [_spread(one["value"], one["low"], one["high"], 3), "met" if one["met"] else "missed"]
        rows.append(line)
    yield "table", rows
    lost = report["not_beaten"]
    yield "text", "Worse than its best rival at 100, 200 or 400 ms: " + (", ".join(lost) or "none") + "."


def _events(report: Mapping[str, Any]) -> Iterator[Part]:
    yield "title", "Events on the beat"
    yield (
        "text",
        (
            "A hit is announced within 50 ms of the teacher's event and decided at least the lead before it. "
            "As it plays: the instrument's own rule and settings, told the lead. Reach rule: the other one "
            "that a rig may name. Live rule: that with threshold and reach chosen for the lead. Window rule: "
            "peaks of the chance around one lead. What is chosen for a subject is chosen on other subjects, "
            "for the extrapolator and the detector on the training subjects. The detector's lead is "
            "negative: it reports after the event."
        ),
    )
    rows: list[Row] = [["event", "lead", "movement", "who", "precision", "recall", "F1", "median lead"]]
    for row in report["events"]:
        median = "-" if row["median_lead_ms"] is None else f"{row['median_lead_ms']:.0f} ms"
        f1 = _spread(row["f1"], row["f1_low"], row["f1_high"], 2) if "f1_low" in row else f"{row['f1']:.2f}"
        rows.append(
            [
                row["event"],
                "after" if row["lead_ms"] is None else f"{row['lead_ms']} ms",
                f"{row['category']} ({row['true']})",
                row["who"],
                f"{row['precision']:.2f}",
                f"{row['recall']:.2f}",
                f1,
                median,
            ]
        )
    yield "table", rows


def _calibration(report: Mapping[str, Any]) -> Iterator[Part]:
    yield "title", "Calibration of events"
    rows: list[Row] = [["event", "within", "base rate", "Brier", "of the base rate", "skill", "ECE"]]
    for row in report["calibration"]:
        skill = "-"
        if row["skill"] is not None and row["skill_low"] is not None:
            skill = _spread(row["skill"], row["skill_low"], row["skill_high"], 2)
        rows.append(
            [
                row["event"],
                f"{row['within_ms']} ms",
                f"{row['base_rate']:.4f}",
                f"{row['brier']:.4f}",
                f"{row['brier_base_rate']:.4f}",
                skill,
                f"{row['ece']:.4f}",
            ]
        )
    yield "table", rows


def _gate(report: Mapping[str, Any]) -> Iterator[Part]:
    yield "title", "Commitment gate"
    gate = report["gate"]
    curves = gate["curves"]
    yield (
        "text",
        (
            f"Standard deviation {gate['std']:.3f}, correlation with the given commitment "
            f"{gate['corr_commitment']:+.2f}. Onsets by the reach rule, {curves['reach_ms']:.0f} ms ahead; "
            "a hit lies within 50 ms and is decided before the event. At the last moment the gate only "
            "decides when to announce what is nearly certain."
        ),
    )
    rows: list[Row] = [
        ["gate as", "precision", "recall", "F1", "announced", "mean lead", "events missed more"]
    ]

    def line(name: str, found: Mapping[str, Any]) -> Row:
        lead = "-" if found["mean_lead_ms"] is None else f"{found['mean_lead_ms']:.0f} ms"
        more = found.get("events_missed_more")
        scores = [f"{found[key]:.2f}" for key in ("precision", "recall", "f1")]
        return [name, *scores, str(found["announced"]), lead, "" if more is None else f"{more:+d}"]

    rows.append(line("nothing: at once", curves["at_once"]))
    rows += [line(f"veto, above {one['gate_above']:.1f}", one) for one in curves["veto"][1:]]
    rows += [line(f"deferral, theta {one['theta']:.1f}", one) for one in curves["deferral"]]
    yield "table", rows


def _suits(report: Mapping[str, Any]) -> Iterator[Part]:
    if not report.get("suits"):
        return
    yield "title", "With fewer joints"
    yield (
        "text",
        (
            "Mean over the eight. A missing joint holds the identity with a mask of 0, its children take "
            "its rotation over. Against the full body's teacher, then against the teacher of what is left."
        ),
    )
    horizons = [f"{ms} ms" for ms in report["horizons_ms"]]
    rows: list[Row] = [["joints", "teacher", *horizons]]
    for row in report["suits"]:
        name = str(row["joints"]) + ("" if row["place_known"] else ", place not known")
        for key, who in (("full_body", "full body"), ("own_body", "own")):
            one = row[key]
            cells = zip(one["mean"], one["low"], one["high"], strict=True)
            rows.append([name, who, *(_spread(*cell) for cell in cells)])
    yield "table", rows
    for row in report["suits"]:
        if row["joints"] < 22 and row["place_known"]:
            yield "text", f"{row['joints']} joints: {', '.join(row['names'])}."


def _latency(report: Mapping[str, Any]) -> Iterator[Part]:
    if "latency" not in report:
        return
    found = report["latency"]
    yield "title", "Latency"
    ahead = {share["horizon_ms"]: share["ratio_of_means"]["value"] for share in report["shares"]}
    quality = ", ".join(f"{value:.2f} at {ms} ms" for ms, value in ahead.items())
    yield (
        "text",
        (
            f"One step at {found['rate']:.0f} Hz, paced, on {found['threads']} thread; "
            f"{found.get('cpu', '')}. Beside it the quality: {quality} of the best rival's error."
        ),
    )
    rows: list[Row] = [["backend", "mode", "frames", "p50", "p90", "p99", "steps"]]
    for backend, modes in found["steps_us"].items():
        for mode, kinds in modes.items():
            for kind, values in kinds.items():
                times = [
                    f"{values[p] / 1000.0:.2f} ms" if p in values else "-" for p in ("p50", "p90", "p99")
                ]
                rows.append([backend, mode, kind, *times, str(values["steps"])])
    yield "table", rows


def _scalars(report: Mapping[str, Any]) -> Iterator[Part]:
    yield "title", "Scalars"
    rows: list[Row] = [["", "mean absolute error of the refined head"]]
    rows += [[name, f"{value:.4f}"] for name, value in report["scalars_mae"].items()]
    yield "table", rows


_GROUPS: Sequence[Any] = (_errors, _shares, _events, _calibration, _gate, _suits, _latency, _scalars)
