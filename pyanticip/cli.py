"""The command line: the composition root, and the only module that knows both realtime and training.

Everything heavy is imported inside the command that needs it, so that ``--help`` is quick.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from pyanticip import cli_tools
from pyanticip.cli_tools import Group
from pyanticip.errors import MotionError

JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


def main() -> None:
    """Entry of the console script and of ``python -m pyanticip``."""
    sys.exit(cli_tools.run(cli))


def _ours() -> None:
    """Refuse to go on with another project's ``realtime`` or ``training`` package in our place."""
    from importlib.util import find_spec

    home = Path(__file__).resolve().parents[1]
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

    \b
    Example: pyanticip live --source mocopi --osc 127.0.0.1:9000
    """
    _ours()


@cli.group(cls=Group)
def rig() -> None:
    """Write or check a rig file: everything `live` can be told, in TOML.

    \b
    Example: pyanticip rig init stage.toml
    """


@rig.command("init")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
def rig_init(file: Path, force: bool) -> None:
    """Write a commented rig with every key at its built-in value.

    \b
    Example: pyanticip rig init stage.toml
    """
    from realtime.rig import template

    if file.exists() and not force:
        raise click.UsageError(f"{file} exists; --force overwrites it")
    file.write_text(template(), encoding="utf-8")
    click.echo(f"wrote {file}; play it with: pyanticip live --rig {file}")


@rig.command("check")
@click.argument("file", type=click.Path(path_type=Path))
@JSON
def rig_check(file: Path, as_json: bool) -> None:
    """Check a rig file and say what it would do.

    \b
    Example: pyanticip rig check stage.toml
    """
    from realtime.rig import load_rig

    found = load_rig(file)
    if as_json:
        _print_json(found.model_dump(mode="json"))
        return
    host, port = found.source.listen
    click.echo(f"{file}: fine")
    click.echo(f"  listens for {found.source.kind} at {host}:{port}")
    for target in found.osc:
        click.echo(f"  sends OSC to {target.host}:{target.port} under {target.prefix or '/'}")


def _print_json(value: dict[str, Any]) -> None:
    click.echo(json.dumps(value, indent=2))
