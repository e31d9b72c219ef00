"""The command line: the composition root, and the only module that knows both realtime and training.

Everything heavy is imported inside the command that needs it, so that ``--help`` is quick.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pyanticip.cli import tools
from pyanticip.cli.bench import bench
from pyanticip.cli.calibrate import calibrate
from pyanticip.cli.files import READING, export, info, reading_of
from pyanticip.cli.tasks import tasks
from pyanticip.cli.teach import teach
from pyanticip.cli.tools import (
    BACKENDS,
    CHECKPOINT,
    JSON,
    RIG,
    SECONDS,
    SOURCE,
    SOURCES,
    Group,
    HostPort,
)
from pyanticip.cli.training import evaluate, train
from pyanticip.errors import MotionError

if TYPE_CHECKING:
    from realtime.rig import Rig

MAPPING = click.option(
    "--mapping", type=click.Path(path_type=Path), help="Taught outputs: what `teach fit` wrote."
)


def _sinks(command: Callable[..., None]) -> Callable[..., None]:
    """The options of every command that plays."""
    for option in reversed(
        [
            click.option(
                "--osc", type=HostPort(), multiple=True, metavar="HOST:PORT", help="OSC receiver; repeatable."
            ),
            click.option("--synth/--no-synth", default=None, help="Play the built-in voice."),
            click.option("--record", type=click.Path(path_type=Path), help="Record to a new .anticip file."),
            click.option("--backend", type=click.Choice(BACKENDS), help="What steps the model."),
            CHECKPOINT,
            click.option("--model/--no-model", default=None, help="Without: the seven scalars play alone."),
            click.option("--lead-ms", type=click.FloatRange(0, 400), help="How far ahead to play, 0..400."),
            MAPPING,
            click.option(
                "--teach",
                type=click.Path(path_type=Path, file_okay=False),
                metavar="PROJECT",
                help="Let /anticip/control/teach work on a project (made if it is not there).",
            ),
        ]
    ):
        command = option(command)
    return command


def _rig(
    rig_file: Path | None,
    *,
    source: dict[str, Any] | None = None,
    osc: tuple[tuple[str, int], ...] = (),
    synth: bool | None = None,
    record: Path | None = None,
    backend: str | None = None,
    checkpoint: Path | None = None,
    model: bool | None = None,
    lead_ms: float | None = None,
    mapping: Path | None = None,
    teach: Path | None = None,
    played: Path | None = None,
) -> Rig:
    """The rig file with what was given on the command line on top.

    Where there is none and a recording is ``played``: as it was recorded.
    """
    from realtime.rig import load_rig, recorded_rig

    over: dict[str, Any] = {"model": {}}
    if source:
        over["source"] = source
    if osc:
        over["osc"] = [{"host": host, "port": port} for host, port in osc]
    if synth is not None:
        over["synth"] = {"enabled": synth}
    if record is not None:
        over["record"] = str(record)
    if backend is not None:
        over["model"]["backend"] = backend
    if checkpoint is not None:
        over["model"]["checkpoint"] = str(checkpoint)
    if model is not None:
        over["model"]["enabled"] = model
    if lead_ms is not None:
        over["lead_ms"] = lead_ms
    if mapping is not None:
        over["mapping"] = str(mapping)
    if teach is not None:
        over["teach"] = str(teach)
    recorded = recorded_rig(played) if played is not None and rig_file is None else {}
    return load_rig(rig_file, over, recorded)


def _say(line: str) -> None:
    click.echo(line, err=True)


def _report(summary: dict[str, Any], as_json: bool) -> None:
    """What a show did, when it is over."""
    if as_json:
        tools.print_json(summary)
        return
    counts = summary["counters"]
    click.echo(f"{counts['frames']} frames in {summary['seconds']:.1f} s, {counts.get('lost', 0)} lost")
    for name, found in summary["sinks"].items():
        trouble = "".join(f", {n} {what}" for what, n in found.items() if what != "sent" and n)
        click.echo(f"{name}: {found['sent']} bundles{trouble}")


def main() -> None:
    """Entry of the console script and of ``python -m pyanticip``."""
    sys.exit(tools.run(cli))


def _ours() -> None:
    """Refuse to go on with another project's ``realtime`` or ``training`` package in our place."""
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

    \b
    Example: pyanticip live --source mocopi --osc 127.0.0.1:9000
    """
    _ours()


@cli.command()
@SECONDS
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Also write the sound (WAV).")
@click.option("--osc", type=HostPort(), metavar="HOST:PORT", help="OSC receiver (127.0.0.1:9000).")
@click.option("--audio/--no-audio", default=True, help="Without: nothing is heard.")
@JSON
def demo(
    seconds: float | None, out: Path | None, osc: tuple[str, int] | None, audio: bool, as_json: bool
) -> None:
    """Play a bundled performance to OSC and sound.

    Without an audio device the sound goes to demo.wav.

    \b
    Example: pyanticip demo --seconds 10 --osc 127.0.0.1:57120
    """
    from realtime.programs.demo import demo as play

    found = play(seconds=seconds, out=out, osc=osc, audio=audio)
    if as_json:
        tools.print_json(found)


@cli.command()
@RIG
@SOURCE
@_sinks
@SECONDS
@JSON
def live(
    rig_file: Path | None, source: dict[str, Any] | None, seconds: float | None, as_json: bool, **sinks: Any
) -> None:
    """Play live: motion comes in over UDP, control goes out over OSC.

    Ctrl-C fades out, closes the recording and ends.

    \b
    Example: pyanticip live --source mocopi://0.0.0.0:12351 --osc 127.0.0.1:57120 --lead-ms 100
    """
    from realtime.programs.live import live as play

    _report(play(_rig(rig_file, source=source, **sinks), seconds=seconds, say=_say), as_json)


@cli.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--speed", default="1", metavar="X|max", help="Times the recorded pace; max: as fast as it goes."
)
@READING
@RIG
@_sinks
@SECONDS
@JSON
def replay(
    file: Path, speed: str, rig_file: Path | None, seconds: float | None, as_json: bool, **sinks: Any
) -> None:
    """Play a motion file or a recording as `live` would.

    Through the very same pipeline, at its own pace. BVH, AMC with its ASF, npz, or an .anticip recording,
    which starts from its raw datagrams.

    \b
    Example: pyanticip replay dance.bvh --osc 127.0.0.1:57120 --speed 0.5
    """
    from realtime.programs.live import open_show
    from realtime.programs.live import replay as play

    factor = tools.speed_factor(speed)
    found = _rig(rig_file, played=file, source=reading_of(sinks), **sinks)
    kind, items = open_show(file, say=_say, **found.source.reading())
    _report(play(items, kind, found, speed=factor, seconds=seconds, say=_say), as_json)


@cli.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), required=True, help="OUT.wav, OUT.npz or OUT.csv.")
@click.option("--lead-ms", type=click.FloatRange(0, 400), help="How far ahead to play, 0..400.")
@click.option("--model/--no-model", default=None, help="Without: the seven scalars play alone.")
@CHECKPOINT
@MAPPING
@READING
@RIG
@SECONDS
@JSON
def render(
    file: Path, out: Path, rig_file: Path | None, seconds: float | None, as_json: bool, **given: Any
) -> None:
    """Turn a motion file into sound or numbers.

    Offline, faster than real time, and the same every time.

    \b
    Example: pyanticip render dance.bvh --out dance.wav
    """
    from realtime.programs.render import render as play

    quiet = as_json or not sys.stderr.isatty()
    rig = _rig(rig_file, played=file, source=reading_of(given), **given)
    found = play(file, out, rig=rig, seconds=seconds, progress=not quiet, say=_say)
    if as_json:
        tools.print_json(found)
    else:
        click.echo("{out}: {seconds:.1f} s in {work_seconds:.1f} s, {frames} frames".format(**found))


@cli.command()
@click.argument("out", type=click.Path(path_type=Path, dir_okay=False))
@RIG
@SOURCE
@SECONDS
@JSON
def record(
    out: Path, rig_file: Path | None, source: dict[str, Any] | None, seconds: float | None, as_json: bool
) -> None:
    """Record what a suit sends, and play nothing. Ctrl-C closes the file.

    \b
    Example: pyanticip record take1.anticip --source mocopi --seconds 60
    """
    from realtime.programs.live import live as play

    found = _rig(rig_file, source=source, record=out, model=False, synth=False)
    _report(play(found.model_copy(update={"osc": ()}), seconds=seconds, say=_say), as_json)


@cli.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--as", "protocol", type=click.Choice(SOURCES), required=True, help="What the suit speaks.")
@click.option("--to", type=HostPort(), required=True, metavar="HOST:PORT", help="Who listens.")
@click.option("--loop", is_flag=True, help="Begin again at the end.")
@click.option("--rate", type=float, help="Frames a second, 1 to 1000; else mocopi 50, vmc 60.")
@click.option("--speed", type=click.FloatRange(0.01, 100), default=1.0, help="Times as fast.")
@READING
@SECONDS
@JSON
def send(
    file: Path,
    protocol: str,
    to: tuple[str, int],
    loop: bool,
    rate: float | None,
    speed: float,
    seconds: float | None,
    as_json: bool,
    **reading: Any,
) -> None:
    """Stand in for a suit: stream a motion file.

    Over the real protocol, at its real pace.

    \b
    Example: pyanticip send dance.bvh --as mocopi --to 127.0.0.1:12351 --rate 60 --loop
    """
    from realtime.programs.send import send as stream

    quiet = as_json or not sys.stderr.isatty()
    done = stream(
        file,
        protocol,
        *to,
        loop=loop,
        rate=rate,
        speed=speed,
        seconds=seconds,
        progress=not quiet,
        say=_say,
        **reading_of(reading),
    )
    if as_json:
        tools.print_json(done)
        return
    refused = f", {done['refused']} refused: nobody listened" if done["refused"] else ""
    click.echo(f"{done['frames']} frames in {done['seconds']:.1f} s to {to[0]}:{to[1]}{refused}")


cli.add_command(info)
cli.add_command(export)


@cli.command()
@click.option("--port", type=click.IntRange(1, 65535), default=57140, help="UDP port to listen at.")
@click.option("--host", default="127.0.0.1", help="Address to listen at.")
@click.option("--device", help="Number or name of the audio device.")
@click.option("--gain", type=click.FloatRange(0, 1), default=1.0, help="Master gain, 0..1.")
@click.option("--wav", type=click.Path(path_type=Path), help="Also write what is played to this file.")
@SECONDS
@JSON
def synth(
    port: int,
    host: str,
    device: str | None,
    gain: float,
    wav: Path | None,
    seconds: float | None,
    as_json: bool,
) -> None:
    """Play the built-in voice from OSC.

    A synth of its own; Ctrl-C ends it.

    \b
    Example: pyanticip synth --port 57140
    """
    from realtime.voice.synth import synth as play

    chosen = int(device) if device and device.isdecimal() else device
    found = play(port, host=host, device=chosen, gain=gain, wav=wav, seconds=seconds, say=_say)
    if as_json:
        tools.print_json(found)


cli.add_command(calibrate)
cli.add_command(teach)
cli.add_command(train)
cli.add_command(evaluate)
cli.add_command(tasks)
cli.add_command(bench)


@cli.command()
@JSON
def doctor(as_json: bool) -> None:
    """Say what works here: audio, GPU, ports, model.

    \b
    Example: pyanticip doctor --json
    """
    from realtime.programs.doctor import doctor as look
    from realtime.programs.doctor import lines

    found = look()
    tools.print_json(found) if as_json else click.echo("\n".join(lines(found)))
    sys.exit(0 if found["working"] else 1)


@cli.group(cls=Group)
def rig() -> None:
    """Write or check a rig file: how to play.

    Everything that `live` can be told, in TOML.

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
    click.echo(f"wrote {file}; play it with: pyanticip live --rig {tools.typed(file)}")


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
    mapping = None
    if found.mapping is not None:
        from pyanticip.teach.mapping import load_mapping

        mapping = load_mapping(found.mapping)
    if as_json:
        tools.print_json(found.model_dump(mode="json"))
        return
    host, port = found.source.listen
    click.echo(f"{file}: fine")
    click.echo(f"  listens for {found.source.kind} at {host}:{port}")
    for target in found.osc:
        click.echo(f"  sends OSC to {target.host}:{target.port} under {target.prefix or '/'}")
    if mapping is not None:
        click.echo(f"  plays mapping {mapping.name}: {', '.join(o.describe() for o in mapping.outputs)}")
