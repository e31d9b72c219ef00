"""The command lines that make runs and their tables anew."""

from collections.abc import Sequence

from training.tasks.algorithmic.groups import Group, settings


def train_and_judge(groups: Sequence[Group], brief: Sequence[str] = ()) -> str:
    """A block of the commands that train these groups, measure them and write their tables.

    Groups that differ only in their positions are trained by one command. Where a folder would have two runs
    of one name, another folder is used. ``brief``: as in :func:`~training.tasks.algorithmic.report.report`.
    """
    made: dict[tuple[str, str], list[Group]] = {}
    for group in groups:
        made.setdefault((group.task, settings(group.runs[0].options)), []).append(group)
    lines, folders, seen = ["```"], ["runs/tasks"], set[tuple[str, str]]()
    for (task, special), same in made.items():
        seeds = sorted({run.options.schedule.seed for group in same for run in group.runs})
        names = {(task, group.positions) for group in same}
        if names & seen:
            folders.append(f"runs/tasks-{len(folders) + 1}")
        folder = folders[-1] if names & seen else folders[0]
        seen |= names
        lines.append(
            f"pyanticip tasks train --out {folder} --task {task} --positions "
            f"{','.join(group.positions for group in same)} --seeds {','.join(map(str, seeds))}{special}"
        )
    where = " ".join(folders)
    judged: dict[str, None] = {}
    for group in groups:
        page = group.pages[0]
        counts = sorted(set(page["samples"].values()), reverse=True)
        far = f" --long-samples {counts[-1]}" if len(counts) > 1 else ""
        far += " --whole" if page.get("whole") else ""
        one_task = len({g.task for g in groups}) == 1
        folder = where if one_task else f"{folders[0]}/{group.task}-*"
        most = max(len(p["curves"]) for g in groups if one_task or g.task == group.task for p in g.pages)
        judged[
            f"pyanticip tasks evaluate {folder} --samples {counts[0]}{far} --seed {page['seed']} "
            f"--lengths {','.join(str(n) for n in group.shares(False))} --checkpoints {most}"
        ] = None
    few = f" --brief {','.join(brief)}" if brief else ""
    return "\n".join(
        [*lines, *judged, f"pyanticip tasks report {where} --out docs/experiments/prism-tasks{few}", "```"]
    )
