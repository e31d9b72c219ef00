"""docs/held_out.md from one command: a checkpoint on subjects left out of its fitting, every figure with it.

python -m training.evaluate.results --data ../shared/data
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pyanticip.errors import MotionError
from training.evaluate import left_out, plots
from training.evaluate.motion import Drawn, evaluate
from training.evaluate.report import sections
from training.evaluate.rules import LEADS_MS
from training.report.pages import Part, as_markdown

SUITS: Final = (22, 10, 6, 1)
SPLITS: Final = {
    "held-out": "All held-out subjects",
    "validation": "Validation subjects",
    "test": "Test subjects",
}
SHOWN: Final = "06_13/20"
"""The clip that is drawn, where it is among those judged."""
ON_THE_BEAT: Final = ("walking", "running", "dance")
OURS: Final = "model, as it plays"
BAR: Final = 0.80
"""F1 that onsets of walking, running and dance are to reach, decided 100 ms before."""

CAVEAT: Final = """
These are not figures for strangers; those stand in [results](results.md). Most of these subjects walk, the
validation subjects chose the weights and the settings, the test subjects were judged by every checkpoint
before, and the running and dance below come from another checkpoint than the packaged one.
"""

METHOD: Final = """
Mean absolute error of the eight parameters (0 to 1) against what the teacher says about the whole clip, at
0, 40, 100, 200 and 400 ms ahead. Mean over frames within a subject, then over subjects. In brackets: 95 %
intervals of a bootstrap over subjects and the clips within them. Frames within 0.54 s of a clip's ends are
not judged, where the teacher's widest kernel is cut.

**Rivals.** All three play the teacher's causal twin, and are tuned on the training subjects for each
parameter at each horizon by itself (`training/evaluate/settings/`). One *holds* what the twin says; one
*extrapolates* it in a straight line (delays of 0 to 400 ms, slopes over 20 to 160 ms, gains of 0.15 to
1.2); one *tracks* it, by a Kalman filter of a damped trend or by a one-euro filter carried on along its
speed, whichever is better there. "Best rival" is another one for every parameter at every horizon.

**Events.** Beats are those of the [teacher](teacher.md) in its third version: the arrivals of strokes. An
announcement is a hit within 50 ms of the teacher's event, if its decision fell at least the lead before the
event itself; each event counts once. *As it plays* is `pyanticip.controls.LastMoment` frame by frame,
with the commitment gate and the settings it comes with (chosen on the validation subjects, 05 and 16), told
the lead as a rig tells it; without a rig it is 100 ms. The *reach rule* is `pyanticip.controls.EventTrigger`,
likewise. The *live rule* is the same with threshold and reach chosen for each lead, the *window rule*
follows the chance of the event in the 100 ms around one lead; both are chosen for each judged subject on
other subjects of the validation side. The *extrapolator* carries the twin's speed curve on, by its period
and by linear prediction. The *detector* reports after the event: as it reports it is too late to be a hit;
in hindsight it also says when the event was, and shows what can be known after it.

**Smaller suits.** A joint that is missing is masked, holds the identity, and its children take its rotation
over. The full body's teacher asks for what cannot be seen; beside it stands the teacher of what is left.

    {command}
    pyanticip evaluate motion --data ../shared/data --split held-out --joints 22,10,6,1 \\
        --latency 20 --report report

The first writes this page. The second makes the report in full, with its pictures, calibration, the gate's
curves, the worst clips and the latency measured then and there; what a step takes on a quiet machine stands
in [model.md](model.md). The rivals' settings are made by `--retune training/evaluate/settings`.
"""


def summary(report: Mapping[str, Any]) -> str:
    """What the numbers of a report come to, as a list."""
    lines = []
    for reading in ("ratio_of_means", "mean_of_ratios"):
        cells = []
        for share in report["shares"]:
            one = share[reading]
            verdict = f"at most {share['bar']:.2f}: {'met' if one['met'] else 'missed'}"
            cells.append(f"{one['value']:.2f} at {share['horizon_ms']} ms ({verdict})")
        name = reading.replace("_", " ").capitalize()
        lines.append(f"* {name}, model over best rival: {', '.join(cells)}.")
    lost = ", ".join(report["not_beaten"]) or "none"
    lines.append(f"* Parameters worse than their best rival at 100, 200 or 400 ms: {lost}.")
    rows = {
        (row["who"], row["category"], row["lead_ms"]): row
        for row in report["events"]
        if row["event"] == "onset"
    }
    cells = []
    for category in ON_THE_BEAT:
        ours, other = rows.get((OURS, category, 100)), rows.get(("extrapolator", category, 100))
        if ours is None or other is None:
            cells.append(f"{category}: no events")
            continue
        rival = f"extrapolator {other['f1']:.2f}, {ours['true']} events"
        cells.append(f"{category} {ours['f1']:.2f} ({rival}, {'met' if ours['f1'] >= BAR else 'missed'})")
    what = f"F1 of onsets decided 100 ms before, as it plays, to be at least {BAR:.2f}"
    lines.append(f"* {what}: {'; '.join(cells)}.")
    cells = []
    for lead_ms in LEADS_MS:
        ours, other = rows.get((OURS, "other", lead_ms)), rows.get(("extrapolator", "other", lead_ms))
        if ours is not None and other is not None:
            verdict = "met" if ours["f1"] > other["f1"] else "missed"
            cells.append(f"{ours['f1']:.2f} against {other['f1']:.2f} at {lead_ms} ms ({verdict})")
    if cells:
        what = "F1 in other movement, as it plays, to be above the extrapolator's"
        lines.append(f"* {what}: {', '.join(cells)}.")
    return "\n".join(lines)


def page(
    reports: Mapping[str, Mapping[str, Any]],
    command: str,
    pictures: Sequence[Part],
    folds: Sequence[Mapping[str, Any]] = (),
) -> str:
    """The page as Markdown.

    Args:
        reports: by split.
        command: that makes it.
        pictures: of the first report; links are into ``img/``.
        folds: of :func:`training.evaluate.left_out.judge`.
    """
    first = next(iter(reports.values()))
    described = first["checkpoint"]
    text = ["# Results on held-out subjects, some of whom chose the settings", "", CAVEAT.strip(), ""]
    text += [f"Checkpoint {described['name']}, {described['parameters']:,} parameters.", ""]
    text += [f"Warning: {line}.\n" for line in first["warnings"]]
    for split, report in reports.items():
        text += [f"{SPLITS[split]} ({', '.join(report['subjects'])}):", "", summary(report), ""]
    text += [left_out.summary(fold, ON_THE_BEAT, BAR) + "\n" for fold in folds]
    text += [METHOD.strip().replace("{command}", command), ""]
    for _, (name, caption, _) in pictures:
        text += [f"![{caption}](img/{name}.png)", ""]
    for fold in folds:
        text += [left_out.section(fold, BAR), ""]
    for split, report in reports.items():
        size = f"{report['clips']} clips, {report['frames']} judged frames"
        text += [f"## {SPLITS[split]}", "", f"Subjects {', '.join(report['subjects'])}; {size}.", ""]
        names = None if split == "held-out" else ("Parameters", "Events on the beat")
        text.append(as_markdown(sections(report, names), depth=3))
    return "\n".join(text).rstrip() + "\n"


def drawn_parts(report: Mapping[str, Any], drawn: Drawn) -> list[Part]:
    """The pictures of the page."""
    found = [
        ("results-errors", "Mean absolute error by horizon, all held-out subjects", plots.errors(report)),
        ("results-shares", "Error as a share of the best rival's", plots.shares(report)),
        ("results-beat", "F1 of onsets by kind of movement and lead", plots.beat(report["events"])),
    ]
    if report.get("suits"):
        found.append(("results-suits", "Error with fewer joints", plots.suits(report["suits"], report)))
    for example, said, hold, told in drawn.clips[:1]:
        caption = f"{example.name}: teacher, model 200 ms ahead, and the twin held"
        found.append(("held-out", caption, plots.clip(example, said, hold, told)))
    return [("image", picture) for picture in found]


def write(
    data: Path,
    out: Path,
    *,
    checkpoint: Path | None = None,
    cache: Path | None = None,
    clip: str = SHOWN,
    folds: Sequence[tuple[Path, Sequence[str]]] = (),
) -> Path:
    """Judge on every split, and other checkpoints on subjects they were made without, and write the page, its
    pictures into ``img`` beside it."""
    others = [left_out.judge(folder, subjects, data, cache=cache) for folder, subjects in folds]
    reports = {
        split: evaluate(checkpoint, data, split, cache=cache, joints=SUITS if split == "held-out" else ())[0]
        for split in SPLITS
    }
    _, drawn = evaluate(checkpoint, data, "validation", cache=cache, clip=clip)
    pictures = drawn_parts(reports["held-out"], drawn)
    command = "python -m training.evaluate.results --data ../shared/data"
    if checkpoint is not None:
        command += f" --checkpoint {checkpoint.name}"
    for folder, subjects in folds:
        command += f" \\\n        --fold {folder.as_posix()}={','.join(subjects)}"
    images = out.parent / "img"
    images.mkdir(parents=True, exist_ok=True)
    for _, (name, _, content) in pictures:
        (images / f"{name}.png").write_bytes(content)
    out.write_text(page(reports, command, pictures, others), encoding="utf-8")
    return out


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of takes")
    parser.add_argument("--checkpoint", type=Path, help="its folder; the packaged one by default")
    parser.add_argument("--cache", type=Path, help="folder of sets that are built on the way")
    parser.add_argument("--clip", default=SHOWN, help="clip of the validation subjects to draw")
    parser.add_argument(
        "--fold",
        action="append",
        default=[],
        metavar="CHECKPOINT=SUBJECTS",
        help="another checkpoint, made without these training subjects (comma-separated); may be given again",
    )
    parser.add_argument("--out", type=Path, default=Path("docs/held_out.md"), help="the page")
    given = parser.parse_args(arguments)
    try:
        folds = [left_out.parse(text) for text in given.fold]
        done = write(
            given.data,
            given.out,
            checkpoint=given.checkpoint,
            cache=given.cache,
            clip=given.clip,
            folds=folds,
        )
    except MotionError as error:
        print(f"results: {error}", file=sys.stderr)
        return 1
    print(f"wrote {done}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
