"""The commands ``pyanticip bench`` and ``pyanticip soak``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from pyanticip.cli.generate import Command, Group
from pyanticip.cli.terminal import Answer, say, unwound
from pyanticip.errors import DeviceError

if TYPE_CHECKING:
    from realtime.bench import options
    from realtime.bench.options import SoakOptions

OPTIONS = "realtime.bench.options"


@click.group(cls=Group)
def bench() -> None:
    """Measure speed and quality on this machine.

    Example: pyanticip bench latency --seconds 60 --json
    """


@bench.command("latency", options=f"{OPTIONS}:LatencyOptions")
@unwound()
def bench_latency(args: options.LatencyOptions) -> Answer:
    """From a datagram's arrival to the OSC bundle's send.

    Over real sockets.

    Example: pyanticip bench latency --seconds 60 --json
    """
    from realtime.bench.latency import run

    result = run(**args.without_json())
    ms, echo = result["latency_ms"], result["echo_ms"]
    return result, [
        f"latency  p50 {ms['p50']:.3f}  p90 {ms['p90']:.3f}  p99 {ms['p99']:.3f}  max {ms['max']:.3f} ms",
        f"bare echo p50 {echo['p50']:.3f}  p99 {echo['p99']:.3f}  max {echo['max']:.3f} ms",
        f"{result['frames']} frames, {result['missed']} missed, {result['dropped']} dropped,"
        f" {result['late']} later than 20 ms (echo: {result['echo_late']})",
        *(
            f"  {name:9} p50 {stage['p50']:7.1f}  p99 {stage['p99']:7.1f} us"
            for name, stage in result["stages_us"].items()
        ),
        f"the show takes {100 * result['core']:.1f} % of a core",
        f"{result['model']} on {result['device']}, {result['cpu']}, {result['cores']} cores",
    ]


@bench.command("performers", options=f"{OPTIONS}:PerformersOptions")
@unwound()
def bench_performers(args: options.PerformersOptions) -> Answer:
    """Latency, load and missed frames of many performers.

    All are played by one process, as `live` does.

    Example: pyanticip bench performers --count 1,2,4,8 --seconds 20 --json
    """
    from realtime.bench.performers import run, table

    return run(**args.without_json()), table


@bench.command("network", options=f"{OPTIONS}:NetworkOptions")
def bench_network(args: options.NetworkOptions) -> Answer:
    """Effect of frame rates and poor networks on the output.

    Offline and deterministic. Motion FILES are sent as suits send them; by default the bundled performance.

    Example: pyanticip bench network dance.bvh walk.amc --markdown
    """
    from realtime.bench.network import markdown, run, table

    result = run(args.files, args.seconds, checkpoint=args.checkpoint, progress=sys.stderr.isatty())
    return result, markdown(result) if args.markdown else table


@bench.command("scalars", options=f"{OPTIONS}:ScalarsOptions")
def bench_scalars(args: options.ScalarsOptions) -> Answer:
    """One frame of the seven scalars.

    Smooth motion, the worst cases, and a stream a million frames old.

    Example: pyanticip bench scalars --seconds 60 --json
    """
    from pyanticip.bench.scalars import run, table

    return run(args.seconds), table


@bench.command("bridge", options=f"{OPTIONS}:BridgeOptions")
def bench_bridge(args: options.BridgeOptions) -> Answer:
    """The scalars of a batch of embeddings.

    In Rust, torch and torch.compile.

    Example: pyanticip bench bridge --seconds 120 --json
    """
    from pyanticip.bench.bridge import LENGTHS, run, table

    return run(args.seconds, args.lengths or LENGTHS, args.data, args.compile), table


@bench.command("step", options=f"{OPTIONS}:StepOptions")
def bench_step(args: options.StepOptions) -> Answer:
    """One model step at the live pace.

    Cold and prewarmed, on each backend. With --performers, what a step of so many at once takes: of a batch
    in torch or on a CUDA graph, of one stream after the other in the Rust core.

    Example: pyanticip bench step --seconds 20 --backend rust --json
    """
    from realtime.bench.step import run, table

    return run(args.seconds, args.backends, args.checkpoint, args.performers), table


@bench.command("train", options=f"{OPTIONS}:TrainOptions", extra="train")
def bench_train(args: options.TrainOptions) -> Answer:
    """The token model beside a plain transformer of equal size.

    Training step, memory, decoding. What does not fit into --seconds is skipped and listed, the longest
    sequences first; on two cores all of it takes at least a minute and a half.

    Example: pyanticip bench train --seconds 120 --json
    """
    from pyanticip.bench.train import run, table

    return run(args.seconds, size=args.size, device=args.device), table


@bench.command("performer", options=f"{OPTIONS}:PerformerOptions")
def bench_performer(args: options.PerformerOptions) -> Answer:
    """Stillness, range and undisturbed movement.

    Through the whole pipeline.

    Example: pyanticip bench performer --data TAKES --json
    """
    from realtime.bench.stillness import run

    return run(args.data, seeds=args.seeds, say=lambda line: click.echo(line, err=args.as_json)), ()


@bench.command("sound", options=f"{OPTIONS}:SoundOptions", extra="train")
def bench_sound(args: options.SoundOptions) -> Answer:
    """How late the sound follows the movement.

    From movement in a file to energy in the sound. Also reports how near beats are to strokes.

    Example: pyanticip bench sound walk.amc dance.bvh --preset default --json
    """
    from realtime.bench.sound import markdown, run
    from training.teacher.kinematic_targets import compute_targets

    result = run(
        args.files,
        args.presets,
        args.seconds,
        beats=lambda quats: compute_targets(quats).times("onset"),
        lead_ms=args.lead_ms,
        checkpoint=args.checkpoint,
    )
    return result, markdown(result)


@click.command(cls=Command, options="realtime.bench.options:SoakOptions")
def soak(args: SoakOptions) -> Answer:
    """Soak test: play for hours while faults are injected.

    A simulated suit plays a complete `live` with every sink: processes are killed, disks fill up, networks
    fail, commands arrive in floods. Nothing is audible. Linux only.

    Example: pyanticip soak --hours 1 --out soaked
    """
    if sys.platform == "linux":
        from realtime.soak.report import kill_lines, table
        from realtime.soak.run import kills, run

        if args.kills:
            result = kills(args.kills, args.out, seed=args.seed, say=say)
            return result, kill_lines(result), int(not result["well"])
        result = run(3600.0 * args.hours, args.out, seed=args.seed, say=say)
        return result, table, int(not result["well"])
    else:
        raise DeviceError("soak: its faults are those of Linux, and can be had there alone")
