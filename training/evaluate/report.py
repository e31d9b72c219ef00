"""The report of ``pyanticip evaluate motion``: page, pictures, and the figures as JSON."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from pyanticip.errors import FormatError, counted
from pyanticip.motion.atomic import write_files, writing
from pyanticip.untrusted import read_json
from pyanticip.vocabulary import EVENTS
from training.evaluate.baselines import PLAYED
from training.evaluate.measures import BEYOND, HARM
from training.evaluate.motion import MODEL
from training.report import pages
from training.report.pages import Part, Row, as_markdown, png, pyplot, remove_spines

COLOURS: Final = ("#c8dcec", "#5fa3d3", "#0a4f8a")
"""Colours of the three horizons, the farthest darkest."""
GREY: Final = "0.6"
TICKS: Final = (0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 5.0, 10.0, 20.0)
MAX_COLUMNS: Final = 5
"""Maximum number of profiles in a row."""


def ratios(report: Mapping[str, Any], system: str) -> bytes:
    """Plot a forecaster's error ratios by kind and horizon, with intervals."""
    from matplotlib import ticker

    plt = pyplot()
    kinds = list(report["kinds"])
    figure, axis = plt.subplots(figsize=(10.0, 3.6))
    for i, ms in enumerate(report["horizons_ms"]):
        rows = [report["kinds"][kind]["rows"][system] for kind in kinds]
        at = np.arange(len(kinds)) + (i - 1) * 0.26
        values = np.array([row["ratio"][i] for row in rows])
        low, high = (
            np.array([row[end][i] if row[end] else np.nan for row in rows]) for end in ("low", "high")
        )
        reach = np.maximum([values - low, high - values], 0.0)
        axis.bar(at, values - 1.0, 0.24, bottom=1.0, color=COLOURS[i], label=f"{ms} ms ahead")
        axis.errorbar(at, values, reach, fmt="none", ecolor="k", elinewidth=0.9)
        for x, row in zip(at, rows, strict=True):
            axis.plot([x - 0.1, x + 0.1], [row["ratio_with_learned"][i]] * 2, color="#e08214", lw=2.2)
    axis.plot([], [], color="#e08214", lw=2.2, label="with the rivals that learn")
    axis.axhline(1.0, color="k", lw=0.9)
    axis.set_xticks(range(len(kinds)), [_title(report, kind) for kind in kinds], fontsize=8)
    axis.set_ylabel("error / best rival's", fontsize=9)
    axis.set_yscale("log")
    axis.yaxis.set_major_locator(ticker.FixedLocator(TICKS))
    axis.yaxis.set_major_formatter(ticker.FormatStrFormatter("%g"))
    axis.yaxis.set_minor_locator(ticker.NullLocator())
    axis.legend(fontsize=8, ncols=4, frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    remove_spines(axis)
    figure.tight_layout()
    return png(figure)


def profiles(report: Mapping[str, Any], system: str) -> bytes:
    """Plot the correlation of forecasts with the parameters at each lag, by kind; triangles: the horizon.

    The best fit is a circle, or an arrow at either end of the lags, as it may lie beyond.
    """
    plt = pyplot()
    kinds = list(report["kinds"])
    row_count = -(-len(kinds) // MAX_COLUMNS)
    column_count = -(-len(kinds) // row_count)
    figure, axes = plt.subplots(
        row_count,
        column_count,
        figsize=(max(2.1 * column_count, 5.0), 2.4 * row_count + 0.3),
        sharex=True,
        sharey=True,
        squeeze=False,
    )
    lags = report["lags_ms"]
    lowest = min(0.0, *(min(map(min, report["kinds"][kind]["profile"])) for kind in kinds))
    # Where the last row has no plot, the one above it has the lags.
    for axis, above in zip(axes.flat[len(kinds) :], axes.flat[len(kinds) - column_count :], strict=False):
        axis.axis("off")
        above.tick_params(labelbottom=True)
    for axis, kind in zip(axes.flat, kinds, strict=False):
        row = report["kinds"][kind]["rows"][system]
        for i, ms in enumerate(report["horizons_ms"]):
            curve = np.array(report["kinds"][kind]["profile"][i])
            axis.plot(lags, curve, color=COLOURS[i], lw=1.8, label=f"{ms} ms ahead")
            best = row["lag_ms"][i]
            mark = {lags[0]: "<", lags[-1]: ">"}.get(best, "o")
            axis.plot(best, curve.max(), mark, ms=5, color=COLOURS[i], mec="k", mew=0.6, clip_on=False)
            axis.plot(ms, lowest + 0.02, "^", ms=6, color=COLOURS[i], mec="k", mew=0.6, clip_on=False)
        axis.axvline(0.0, color=GREY, lw=0.8)
        axis.set_title(_title(report, kind).replace("\n", " "), fontsize=8)
        axis.set_ylim(lowest, 1.0)
        remove_spines(axis)
    for axis in axes[:, 0]:
        axis.set_ylabel("correlation", fontsize=8)
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.supxlabel("time of the parameters it is compared with, ms from now", fontsize=9)
    figure.tight_layout(rect=(0.0, 0.0, 1.0, 0.93))
    figure.legend(handles, labels, fontsize=8, ncols=3, loc="upper center", frameon=False)
    return png(figure)


def _title(report: Mapping[str, Any], kind: str) -> str:
    section = report["kinds"][kind]
    people = counted(len(section["people"]), "person", "people")
    return f"{kind.replace(', ', ',')}\n({people})".replace(",", ",\n", 1)


TITLE: Final = "How well the model predicts strangers"

METHOD: Final = (
    "**Ratio**: error divided by the best rivals'; below 1 the forecaster is better. Errors are mean "
    "absolute errors against the teacher's output for the whole clip, averaged over frames within a person, "
    "then over people, and summed over the eight parameters (0 to 1). The best rival is chosen in hindsight "
    "for each kind of movement, parameter and horizon. *Mean of ratios* averages the eight ratios instead, "
    "so parameters that hardly move count as much as others. Brackets hold 95 % intervals over people and "
    "the clips within them; for one person, over the clips alone; for one clip there are none. *With those "
    "that learn* adds three rivals: ridge, a GRU of 160 units, and each parameter's own autoregression, "
    "all of which learned from {taught}.",
    "**Lag**: the delay, from -200 to 400 ms, at which the parameters fit a forecast best (correlation, clip "
    "means removed, averaged over the eight); a best fit at either end may lie beyond (≤, ≥). **R2**: the "
    "share of the outcome that a forecast explains beyond the best linear mix of all rivals, with those that "
    "learn; in brackets without them.",
    "A forecast is *no better* if its ratio is not below 1, *worse* if its whole interval is above 1, and "
    "*unclear* if the ratio is below 1 but the interval is not. If both are below 1, it is *ahead* if its "
    f"lag is at least half of the horizon and R2 at least {BEYOND:g}, else *surer*: better calibrated but "
    "not earlier.",
)


def _method(report: Mapping[str, Any]) -> Iterator[str]:
    """:data:`METHOD`, with the people that the baselines were trained on."""
    model = report["checkpoint"]["learned_from"]
    taught = "the training side of DATA"
    if model == report["taught"]:
        taught = "the people that the model learned from"
    elif model:
        taught += " (not those who taught this checkpoint)"
    return (line.format(taught=taught) for line in METHOD)


def write(report: Mapping[str, Any], target: Path) -> list[Path]:
    """Write the page, and the figures as JSON.

    Args:
        report: report of :func:`training.evaluate.motion.evaluate`.
        target: a folder or ``NAME.html`` as for :func:`training.report.pages.write`, or ``NAME.md``,
            which gets ``NAME.json`` beside it and its pictures in ``img``.

    Returns:
        The written files, the page first.

    Raises:
        MotionError: as :func:`training.report.pages.write`.
    """
    if target.suffix.lower() != ".md":
        return pages.write(list(parts(report)), report, target, TITLE)
    with writing(target):
        (target.parent / "img").mkdir(parents=True, exist_ok=True)
    page_parts, pictures = [], {}
    for kind, value in parts(report):
        if kind == "image":
            name, caption, picture = value
            pictures[target.parent / "img" / f"{target.stem}-{name}.png"] = picture
            value = (f"img/{target.stem}-{name}", caption, picture)
        page_parts.append((kind, value))
    figures = target.with_suffix(".json")
    texts = {target: as_markdown(page_parts).encode(), figures: (json.dumps(report) + "\n").encode()}
    write_files(texts | pictures)
    return [*texts, *pictures]


def count_test_evaluations(target: Path) -> int:
    """How often the test split had been evaluated according to an existing report; 0 without a report.

    Raises:
        OptionError: not a target for :func:`write`, or a file of something else.
        FormatError: the JSON file is not of a motion report.
    """
    if target.suffix.lower() == ".md":
        pages.check_pair(target, figures := target.with_suffix(".json"))
    else:
        _, figures = pages.report_paths(target, endings=".html or .md")
    if not figures.is_file():
        return 0
    try:
        return int(read_json(figures)["looks"])
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(f"{figures}: not the figures of a motion report ({error})") from None


def markdown(report: Mapping[str, Any]) -> str:
    """The page without pictures, as Markdown."""
    return as_markdown([part for part in parts(report, pictures=False) if part[0] != "image"])


def parts(report: Mapping[str, Any], *, pictures: bool = True) -> Iterator[Part]:
    """The parts of the page."""
    yield "title", TITLE
    yield from _head(report)
    yield "table", summary(report)
    for line in _method(report):
        yield "text", line
    if pictures:
        caption = "Error over the best rival's, by kind of movement; orange: with the rivals that learn."
        yield "image", ("ratios", caption, ratios(report, MODEL))
        caption = (
            "The model's forecasts compared with the parameters earlier and later; circles: best fit "
            "(arrows: there or beyond); triangles: the horizon."
        )
        yield "image", ("lags", caption, profiles(report, MODEL))
    yield "title", "By kind of movement"
    yield "table", _kinds(report)
    yield "title", "All systems"
    yield (
        "text",
        f"Ratios of every system to the best of the {len(report['simple'])} rivals that do not learn, "
        "100 / 200 / 400 ms ahead; bold where it is *ahead*.",
    )
    yield "table", _others(report["kinds"])
    yield "title", "Harmed clips"
    yield (
        "text",
        f"Clips in which it is over {100 * (HARM - 1):.0f} % worse than the clip's best single rival (one "
        "for all parameters, including those that learn), and the worst of these clips.",
    )
    yield "table", _harm(report)
    yield "title", "The second time through"
    if report["second_time"]:
        yield (
            "text",
            "Clips in which a person repeats an earlier take (`repeats.csv`, cost below .35). Each system "
            "saw that take first; one without memory does as well as the first time.",
        )
        yield "table", _others(report["second_time"])
    else:
        yield "text", "No clip here repeats an earlier take (`repeats.csv`)."
    yield from _events(report)


def _head(report: Mapping[str, Any]) -> Iterator[Part]:
    checkpoint = report["checkpoint"]
    clips = sum(kind["clips"] for kind in report["kinds"].values())
    seconds = sum(kind["seconds"] for kind in report["kinds"].values())
    long = f"{seconds:.0f} s" if seconds < 120.0 else f"{seconds / 60.0:.0f} minutes"
    people = sorted({person for kind in report["kinds"].values() for person in kind["people"]})
    yield (
        "text",
        f"Checkpoint {checkpoint['name']}, {checkpoint['parameters']:,} parameters, on "
        f"{counted(clips, 'clip')} ({long}) of {counted(len(people), 'person', 'people')}: "
        f"{', '.join(people)}. The rivals that learn "
        f"were trained on {', '.join(report['taught']) or 'nobody'}.",
    )
    if "command" in report:
        yield "text", f"Made on {report['date']} by `{report['command']}`."
    if report.get("looks"):
        times = "once" if report["looks"] == 1 else f"{report['looks']} times"
        yield "text", f"This command has looked at the test side {times}."
    for name, why in report["flagged"].items():
        yield "text", f"Left out: {name}: {why}"
    for line in report["warnings"]:
        yield "text", f"Warning: {line}."


def _three(values: Sequence[float]) -> str:
    return " ".join(map(_short, values))


def _short(value: float, digits: int = 2) -> str:
    text = f"{value:.{digits}f}"
    return text[1:] if text.startswith("0.") else text


def _spread(value: float, low: float | None, high: float | None) -> str:
    """Format a value with its interval, if it has one."""
    return (
        _short(value) if low is None or high is None else f"{_short(value)} [{_short(low)}, {_short(high)}]"
    )


def _lag(ms: int, lags: Sequence[int]) -> str:
    return {lags[0]: "≤ ", lags[-1]: "≥ "}.get(ms, "") + f"{ms} ms"


def _verdicts(row: Mapping[str, Any]) -> str:
    verdicts = row["verdict"]
    return verdicts[0] if len(set(verdicts)) == 1 else ", ".join(verdicts)


def summary(report: Mapping[str, Any]) -> list[Row]:
    """Table quoted by other pages: the model by kind of movement, alone and as played live with a memory."""
    horizons = " / ".join(map(str, report["horizons_ms"]))
    rows: list[Row] = [
        [
            f"{horizons} ms ahead",
            "ratio",
            "with those that learn",
            "it is",
            "clips harmed",
            PLAYED,
            "it is",
            "clips harmed",
        ]
    ]
    for kind, section in report["kinds"].items():
        model, mixed = section["rows"][MODEL], section["rows"][PLAYED]
        harmed = [_harmed(row, section["clips"]) for row in (model, mixed)]
        ratios = (_three(model[name]) for name in ("ratio", "ratio_with_learned"))
        live = (_three(mixed["ratio"]), _verdicts(mixed), harmed[1])
        rows.append([kind, *ratios, _verdicts(model), harmed[0], *live])
    return rows


def played(report: Mapping[str, Any]) -> list[Row]:
    """Table quoted by the README: every kind of movement as ``live`` plays it."""
    horizons = " / ".join(map(str, report["horizons_ms"]))
    rows: list[Row] = [[f"{horizons} ms ahead", "as live plays it", "it is", "clips harmed"]]
    for kind, section in report["kinds"].items():
        row = section["rows"][PLAYED]
        rows.append([kind, _three(row["ratio"]), _verdicts(row), _harmed(row, section["clips"])])
    return rows


def _harmed(row: Mapping[str, Any], clips: int) -> str:
    """Shares of harmed clips, by horizon."""
    return " ".join(f"{100.0 * count / clips:.0f}" for count in row["harmed"]) + " %"


def _kinds(report: Mapping[str, Any]) -> list[Row]:
    rows: list[Row] = [
        ["", "ahead", "ratio", "mean of ratios", "with those that learn", "lag", "R2", "it is"]
    ]
    for kind, section in report["kinds"].items():
        row = section["rows"][MODEL]
        people = counted(len(section["people"]), "person", "people")
        label = f"{kind}: {people}, {counted(section['clips'], 'clip')}, {section['seconds']:.0f} s"
        for i, ms in enumerate(report["horizons_ms"]):
            low, high = (row[end][i] if row[end] else None for end in ("low", "high"))
            rows.append(
                [
                    label if i == 0 else "",
                    f"{ms} ms",
                    _spread(row["ratio"][i], low, high),
                    _short(row["mean_of_ratios"][i]),
                    _short(row["ratio_with_learned"][i]),
                    _lag(row["lag_ms"][i], report["lags_ms"]),
                    f"{_short(row['beyond'][i], 3)} ({_short(row['beyond_simple'][i], 3)})",
                    row["verdict"][i],
                ]
            )
    return rows


def _others(kinds: Mapping[str, Any]) -> list[Row]:
    names = list(next(iter(kinds.values()))["rows"])
    order = [MODEL, *(name for name in names if name != MODEL)]
    rows: list[Row] = [["", *(f"{kind} ({section['clips']})" for kind, section in kinds.items())]]
    rows += [[name, *(_marked(section["rows"][name]) for section in kinds.values())] for name in order]
    return rows


def _marked(row: Mapping[str, Any]) -> str:
    """The ratios, bold if *ahead*."""
    pairs = zip(row["ratio"], row["verdict"], strict=True)
    return " ".join(
        f"**{_short(value)}**" if verdict == "ahead" else _short(value) for value, verdict in pairs
    )


def _harm(report: Mapping[str, Any]) -> list[Row]:
    rows: list[Row] = [["", "clips", "who", "harmed", "worst"]]
    for kind, section in report["kinds"].items():
        for system in (MODEL, PLAYED):
            row = section["rows"][system]
            worst = max(row["worst"], key=lambda one: one["ratio"])
            harmed = " / ".join(map(str, row["harmed"]))
            worst_clip = f"{worst['clip']} ({_short(worst['ratio'])})"
            rows.append([kind, str(section["clips"]), system, harmed, worst_clip])
    return rows


def _events(report: Mapping[str, Any]) -> Iterator[Part]:
    yield "title", "Events on the beat"
    yield (
        "text",
        "F1. A hit is announced within 50 ms of the teacher's event and decided at least the given time "
        "before it. The model uses the instrument's own rule, given the lead; the extrapolator continues the "
        "causal twin's speed, with settings tuned on the training side.",
    )
    leads = sorted({row["lead_ms"] for row in report["events"]})
    rows: list[Row] = [["beats of", "who", *(f"{ms} ms" for ms in leads)]]
    cells: dict[tuple[str, str], list[str]] = {}
    for row in (row for row in report["events"] if row["event"] == EVENTS[0]):
        text = _spread(row["f1"], row["low"], row["high"])
        cells.setdefault((f"{row['kind']} ({row['true']})", row["who"]), []).append(text)
    for kind in dict.fromkeys(kind for kind, _ in cells):
        rows += [[kind, system, *cells[kind, system]] for system in (MODEL, "extrapolator")]
    yield "table", rows
    phrases = [row for row in report["events"] if row["event"] != EVENTS[0] and row["who"] == MODEL]
    if phrases:
        hits = [sum(round(r["recall"] * r["true"]) for r in phrases if r["lead_ms"] == ms) for ms in leads]
        total = sum(row["true"] for row in phrases if row["lead_ms"] == leads[0])
        announced, before = (" / ".join(map(str, numbers)) for numbers in (hits, leads))
        yield "text", f"Of {total} phrases the model announces {announced}, at least {before} ms ahead."
