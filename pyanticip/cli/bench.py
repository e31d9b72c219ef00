"""The commands that measure: ``pyanticip bench``. Mounted by :mod:`pyanticip.cli`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from pyanticip.cli.tools import BACKENDS, CHECKPOINT, JSON, Group, print_json, show


@click.group(cls=Group)
def bench() -> None:
    """Measure what this machine does.

    \b
    Example: pyanticip bench latency --seconds 60 --json
    """


@bench.command("latency")
@click.option("--seconds", type=click.FloatRange(1, 3600), default=60.0, help="How long to measure.")
@click.option("--file", type=click.Path(path_type=Path), help="A motion file to send; else synthetic motion.")
@click.option("--backend", type=click.Choice(BACKENDS), default="auto", help="What steps the model.")
@CHECKPOINT
@click.option("--model/--no-model", default=True, help="Without: the seven scalars play alone.")
@click.option("--prewarm/--no-prewarm", default=True, help="Without: every step runs cold.")
@click.option("--priority/--no-priority", default=True, help="Without: scheduled as any program.")
@JSON
def bench_latency(
    seconds: float,
    file: Path | None,
    backend: str,
    checkpoint: Path | None,
    model: bool,
    prewarm: bool,
    priority: bool,
    as_json: bool,
) -> None:
    """From a datagram's arrival to the OSC bundle's send: the real pipeline over real sockets.

    \b
    Example: pyanticip bench latency --seconds 60 --json
    """
    from realtime.bench.latency import run

    result = run(
        seconds,
        file=file,
        backend=backend,
        checkpoint=checkpoint,
        model=model,
        prewarm=prewarm,
        priority=priority,
    )
    if as_json:
        print_json(result)
        return
    ms, echo = result["latency_ms"], result["echo_ms"]
    click.echo(
        f"latency  p50 {ms['p50']:.3f}  p90 {ms['p90']:.3f}  p99 {ms['p99']:.3f}  max {ms['max']:.3f} ms"
    )
    click.echo(f"bare echo p50 {echo['p50']:.3f}  p99 {echo['p99']:.3f}  max {echo['max']:.3f} ms")
    click.echo(
        f"{result['frames']} frames, {result['missed']} missed, {result['dropped']} dropped,"
        f" {result['late']} later than 20 ms (echo: {result['echo_late']})"
    )
    for name, stage in result["stages_us"].items():
        click.echo(f"  {name:9} p50 {stage['p50']:7.1f}  p99 {stage['p99']:7.1f} us")
    click.echo(f"{result['model']} on {result['device']}, {result['cpu']}, {result['cores']} cores")


@bench.command("network")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path))
@click.option("--seconds", type=click.FloatRange(5, 3600), default=20.0, help="Of each file at most.")
@CHECKPOINT
@click.option("--markdown", "as_markdown", is_flag=True, help="Print the tables as a page has them.")
@JSON
def bench_network(
    files: tuple[Path, ...], seconds: float, checkpoint: Path | None, as_markdown: bool, as_json: bool
) -> None:
    """What frame rates and poor networks change in the output: offline, the same every time.

    Motion FILES are sent as suits send them; the bundled performance if none is given.

    \b
    Example: pyanticip bench network dance.bvh walk.amc --markdown
    """
    from realtime.bench.network import markdown, run, table

    result = run(files, seconds, checkpoint=checkpoint, progress=sys.stderr.isatty())
    if as_markdown:
        click.echo(markdown(result))
    else:
        show(result, as_json, table)


@bench.command("scalars")
@click.option("--seconds", type=click.FloatRange(1, 3600), default=60.0, help="About how long, all in all.")
@JSON
def bench_scalars(seconds: float, as_json: bool) -> None:
    """One frame of the seven scalars: smooth motion, the worst cases, and a stream a million frames old.

    \b
    Example: pyanticip bench scalars --seconds 60 --json
    """
    from realtime.bench.scalars import run, table

    show(run(seconds), as_json, table)


@bench.command("bridge")
@click.option("--seconds", type=click.FloatRange(1, 3600), default=120.0, help="About how long, all in all.")
@click.option(
    "--length", "lengths", type=click.IntRange(1, 65536), multiple=True, help="Only this one; repeatable."
)
@click.option(
    "--data", type=click.Choice(["noise", "tokens", "walk"]), default="noise", help="What to measure on."
)
@click.option("--compile/--no-compile", "compiled", default=True, help="Without: torch.compile is left out.")
@JSON
def bench_bridge(seconds: float, lengths: tuple[int, ...], data: str, compiled: bool, as_json: bool) -> None:
    """The scalars of a batch of embeddings in Rust, torch, torch.compile and NumPy, side by side.

    \b
    Example: pyanticip bench bridge --seconds 120 --json
    """
    from realtime.bench.bridge import LENGTHS, run, table

    show(run(seconds, lengths or LENGTHS, data, compiled), as_json, table)


@bench.command("step")
@click.option("--seconds", type=click.FloatRange(1, 3600), default=20.0, help="How long, all in all.")
@click.option(
    "--backend", "backends", type=click.Choice(BACKENDS[1:]), multiple=True, help="Only this one; repeatable."
)
@CHECKPOINT
@JSON
def bench_step(seconds: float, backends: tuple[str, ...], checkpoint: Path | None, as_json: bool) -> None:
    """One model step at the live pace, cold and prewarmed, on each backend.

    \b
    Example: pyanticip bench step --seconds 20 --backend onnx --json
    """
    from realtime.bench.step import run, table

    show(run(seconds, backends, checkpoint), as_json, table)


@bench.command("train")
@click.option("--seconds", type=click.FloatRange(1, 3600), default=120.0, help="About how long, all in all.")
@click.option("--size", type=click.Choice(["small", "default"]), default="small", help="Preset.")
@click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", help="Where.")
@JSON
def bench_train(seconds: float, size: str, device: str, as_json: bool) -> None:
    """The token model beside a plain transformer of equal size: training step, memory, decoding.

    What --seconds do not suffice for is left out and named, the longest sequences first; on two cores
    everything takes about a minute and a half at least.

    \b
    Example: pyanticip bench train --seconds 120 --json
    """
    from realtime.bench.train import run, table

    show(run(seconds, size=size, device=device), as_json, table)


@bench.command("performer")
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    default=Path("../shared/data"),
    help="The folder that holds cmu and more.",
)
@click.option("--seeds", type=click.IntRange(1), default=1, help="Draws of noise for each held pose.")
@JSON
def bench_performer(data: Path, seeds: int, as_json: bool) -> None:
    """Stillness, range, and movement that passes unchanged, through the whole pipeline.

    \b
    Example: pyanticip bench performer --data ../shared/data --json
    """
    from realtime.bench.stillness import run

    result = run(data, seeds=seeds, say=lambda line: click.echo(line, err=as_json))
    if as_json:
        print_json(result)
