"""The root command, ``pyanticip``, and the list of its subcommands."""

from __future__ import annotations

from pathlib import Path

import click

from pyanticip.cli import play
from pyanticip.cli.bench import bench, soak
from pyanticip.cli.evaluate import evaluate
from pyanticip.cli.files import export, info
from pyanticip.cli.generate import Group
from pyanticip.cli.tasks import tasks
from pyanticip.cli.teach import teach
from pyanticip.cli.train import train
from pyanticip.errors import MotionError
from pyanticip.system import clock_is_fine


def _check_packages() -> None:
    """Refuse to run if another project's ``realtime`` or ``training`` package shadows ours."""
    from importlib.util import find_spec

    home = Path(__file__).resolve().parents[2]
    for name in ("realtime", "training"):
        spec = find_spec(name)
        found = Path(spec.origin).resolve().parents[1] if spec and spec.origin else None
        if found != home:
            raise MotionError(
                f"package {name!r}: expected it in {home}, found {found}; another project has this name:"
                f" remove it (pip uninstall {name}) and reinstall pyanticip"
            )


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="pyanticip", message="%(version)s")
def cli() -> None:
    """A performer moves; the music knows where the movement is going.

    Example: pyanticip live --source mocopi://0.0.0.0 --osc 127.0.0.1:9000
    """
    _check_packages()
    if not clock_is_fine():
        raise MotionError(
            "on Windows Python 3.13 or later is needed: the clock of older ones ticks every 16 ms"
        )


for _command in (
    play.demo,
    play.setup,
    play.live,
    play.monitor,
    play.replay,
    play.render,
    play.record,
    play.send,
    info,
    export,
    play.synth,
    play.presets,
    play.calibrate,
    play.rehearse,
    teach,
    train,
    evaluate,
    tasks,
    bench,
    soak,
    play.doctor,
    play.rig,
):
    cli.add_command(_command)
