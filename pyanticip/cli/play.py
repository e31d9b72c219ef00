"""The commands that play, monitor, record, send and set up."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from pyanticip.cli.generate import Command, Group
from pyanticip.cli.terminal import Answer, drawn, say, shell_argument, speed_factor, unwound
from pyanticip.errors import OptionError, RigError, counted

if TYPE_CHECKING:
    from pyanticip.options import JsonOption
    from realtime.programs import options

OPTIONS = "realtime.programs.options"


def _show_answer(summary: dict[str, Any]) -> Answer:
    """Summary of a show that has ended."""
    from realtime.protocols import lost_frames

    counts = summary["counters"]
    lost = (
        ""
        if (n := lost_frames(counts)) is None
        else f", {counts['heard']} received from the sender, {n} lost"
    )
    frames = counted(counts["frames"], "frame")
    lines = [f"{frames} in {summary['seconds']:.1f} s{lost}{_without_model(counts)}"]
    for name, found in summary["sinks"].items():
        counts = [f"{n} {what}" for what, n in found.items() if what == "sent" or n]
        lines.append(f"{name}: {', '.join(counts) or 'nothing counted'}")
    return summary, lines


def _without_model(counts: Mapping[str, int]) -> str:
    """Text for the frames that the scalars played because the model was late or failed; ``""`` for none."""
    return f", {counted(n, 'frame')} without the model" if (n := counts["without_model"]) else ""


def _say_all(lines: Iterable[str]) -> None:
    for line in lines:
        say(line)


def _progress(as_json: bool) -> bool:
    return sys.stderr.isatty() and not as_json


@click.command(cls=Command, options=f"{OPTIONS}:DemoOptions")
def demo(args: options.DemoOptions) -> Answer:
    """Play a bundled dance to OSC and sound.

    It plays twice, without a lead and then with one. Without an audio device the sound goes to demo.wav.

    Example: pyanticip demo --seconds 10 --osc 127.0.0.1:57120
    """
    from pyanticip.motion.atomic import check_out

    if args.out is not None:
        check_out(args.out, (".wav",))
    voice = None
    if args.audio:
        # Started before the imports below, since its process and device take as long to open.
        from realtime.rig.tree import SynthRig
        from realtime.voice.process import begin_voice

        voice = begin_voice(SynthRig.model_validate(args.over.get("synth", {})), say)
    from realtime.programs.demo import demo as play
    from realtime.rig import Rig

    _say_all(Rig().ignored_options(args.over, voice=args.audio or args.out is not None))
    found = play(
        seconds=args.seconds,
        out=args.out,
        osc=args.osc,
        midi=args.midi,
        audio=args.audio,
        lead_ms=args.lead_ms,
        synth=args.over.get("synth", {}),
        monitor=args.over.get("monitor", {}),
        voice=voice,
    )
    return found, ()


@click.command(cls=Command, options=f"{OPTIONS}:SetupOptions")
def setup(args: options.SetupOptions) -> Answer:
    """Guided setup, from the suit to sound.

    Shows what to enter in the suit's app, names what arrives, plays it and writes a rig. Enter accepts the
    default; options answer questions beforehand, --yes all of them. Ctrl-C leaves nothing behind.

    Example: pyanticip setup --suit mocopi --osc 127.0.0.1:57120 --out stage.toml
    """
    from realtime.programs.setup import setup as guide

    def ask(question: str, default: str, choices: Sequence[str]) -> str:
        if args.yes:
            return default
        kind = click.Choice(list(choices)) if choices else click.STRING

        def whole(text: str) -> str:  # y is yes
            meant = [choice for choice in choices if text and choice.startswith(text.lower())]
            return meant[0] if len(meant) == 1 else str(kind.convert(text, None, None))

        try:
            answer: str = click.prompt(question, default=default, type=kind, value_proc=whole, err=True)
        except click.Abort as end:
            if not isinstance(end.__context__, EOFError):
                raise  # Ctrl-C
            say("")
            raise OptionError("setup: nobody answers; --yes answers all questions") from None
        return answer

    found = guide(args, ask, say, drawn(args.as_json))
    return found, [f"wrote {found['rig']}; from now on: {found['command']}"]


@click.command(cls=Command, options=f"{OPTIONS}:LiveOptions")
def live(args: options.LiveOptions) -> Answer:
    """Play live: motion comes in over UDP, control goes out over OSC.

    Ctrl-C fades out, closes the recording and ends.

    Example: pyanticip live --source mocopi://0.0.0.0 --osc 127.0.0.1:57120 --lead-ms 100
    """
    from realtime.programs.live import live as play
    from realtime.rig import load_rig

    rig = load_rig(args.rig_file, args.over, up=args.up, rest=args.rest, joints=args.joints)
    _say_all(rig.ignored_options(args.over))
    return _show_answer(play(rig, seconds=args.seconds, say=say, meters=drawn(args.as_json)))


@click.command(cls=Command, options=f"{OPTIONS}:MonitorOptions")
def monitor(args: options.MonitorOptions) -> Answer:
    """Show a suit in a browser: body, scalars and forecast. Sends and records nothing.

    To monitor and control a performance, use `live --monitor`.

    Example: pyanticip monitor --source mocopi://0.0.0.0 --at 0.0.0.0:8765
    """
    from realtime.programs.live import live as play
    from realtime.rig import load_rig

    over = {"monitor": {"enabled": True}} | args.over
    rig = load_rig(args.rig_file, over, up=args.up, rest=args.rest, joints=args.joints)
    _say_all(rig.ignored_options(args.over))
    rig = rig.without_receivers().model_copy(update={"record": None})
    return _show_answer(play(rig, seconds=args.seconds, say=say, meters=drawn(args.as_json)))


@click.command(cls=Command, options=f"{OPTIONS}:ReplayOptions")
def replay(args: options.ReplayOptions) -> Answer:
    """Play a motion file or a recording as `live` would.

    Uses the same pipeline, at the recorded pace. BVH, AMC with its ASF, C3D, MVNX, npz, or an .anticip
    recording, which starts from its raw datagrams.

    Example: pyanticip replay dance.bvh --osc 127.0.0.1:57120 --speed 0.5
    """
    from pyanticip.motion.load import check_reading
    from realtime.programs.live import replay as play
    from realtime.rig import load_rig
    from realtime.sources.replay import open_show

    speed = speed_factor(args.speed)
    check_reading([args.file], args.over.get("source", {}))
    rig = load_rig(args.rig_file, args.over, args.file)
    _say_all(rig.ignored_options(args.over))
    kind, items = open_show(args.file, say=say, **rig.source.reading())
    meters = drawn(args.as_json)
    return _show_answer(play(items, kind, rig, speed=speed, seconds=args.seconds, say=say, meters=meters))


@click.command(cls=Command, options=f"{OPTIONS}:RenderOptions")
@unwound()
def render(args: options.RenderOptions) -> Answer:
    """Turn a motion file, or a folder of them, into sound or numbers.

    A folder on all cores. Offline, faster than real time, deterministic.

    Example: pyanticip render dance.bvh --out dance.wav
    """
    from pyanticip.motion.load import check_reading
    from realtime.programs.render import render as play
    from realtime.rig import load_rig

    show_progress = _progress(args.as_json)
    is_folder = args.file.is_dir()
    suffix = f".{args.kind or 'wav'}" if is_folder else args.out.suffix.lower()
    rig = load_rig(args.rig_file, args.over, None if is_folder else args.file)
    _say_all(rig.ignored_options(args.over, voice=suffix == ".wav"))
    if is_folder:
        from realtime.programs.render_folder import render_folder

        done = render_folder(
            args.file,
            args.out,
            suffix=suffix,
            rig=lambda path: load_rig(args.rig_file, args.over, path),
            reading=args.over.get("source", {}),
            seconds=args.seconds,
            workers=args.workers,
            progress=show_progress,
            say=say,
        )
        text = f"{done['out']}: {counted(done['files'], 'file')}, {done['seconds']:.0f} s in "
        text += f"{done['work_seconds']:.0f} s{_without_model(done)}"
        if not done["failed"]:
            return done, text
        return done, f"{text}; {len(done['failed'])} could not be rendered", 1
    for name in ("kind", "workers"):
        if getattr(args, name) is not None:
            raise OptionError(
                f"--{name} is for a folder; {args.file} is a file, and --out says what it becomes"
            )
    check_reading([args.file], args.over.get("source", {}))
    found = play(args.file, args.out, rig=rig, seconds=args.seconds, progress=show_progress, say=say)
    text = "{out}: {seconds:.1f} s in {work_seconds:.1f} s, {frames} frames".format(**found)
    return found, text + _without_model(found)


@click.command(cls=Command, options=f"{OPTIONS}:RecordOptions")
def record(args: options.RecordOptions) -> Answer:
    """Record a suit without playing. Ctrl-C closes the file.

    The exit code is 1 if anything is missing in it, as from a full disk.

    Example: pyanticip record take1.anticip --source mocopi://0.0.0.0 --seconds 60
    """
    from realtime.programs.live import live as play
    from realtime.rig import load_rig

    over = {**args.over, "record": str(args.out)}
    rig = load_rig(args.rig_file, over, up=args.up, rest=args.rest, joints=args.joints)
    summary = play(rig.for_recording(), seconds=args.seconds, say=say)
    _, lines, *_ = _show_answer(summary)
    return summary, lines, 0 if summary["recording_complete"] else 1


@click.command(cls=Command, options=f"{OPTIONS}:RehearseOptions")
def rehearse(args: options.RehearseOptions) -> Answer:
    """Build a memory of takes, for following and cues.

    Takes are recordings (of the performer who was heard) or motion files. `live --memory OUT` uses the
    memory: forecasts improve for a repeated dance and get slightly worse for a walk.

    Example: pyanticip rehearse take1.anticip take2.anticip --out piece.memory
    """
    from pyanticip.motion.load import check_reading
    from realtime.programs.rehearse import rehearse as remember

    check_reading(args.files, args.reading())
    report = (lambda line: None) if args.as_json else say
    found = remember(args.files, args.out, force=args.force, say=report, **args.reading())
    takes, seconds = len(found["takes"]), found["seconds"]
    return (
        found,
        f"{args.out}: {counted(takes, 'take')}, {seconds:.0f} s; play with: "
        f"pyanticip live --source auto://0.0.0.0 --memory {shell_argument(args.out)}",
    )


@click.command(cls=Command, options=f"{OPTIONS}:SendOptions")
def send(args: options.SendOptions) -> Answer:
    """Stream a motion file as a suit would.

    Uses the suit's protocol, in real time.

    Example: pyanticip send dance.bvh --as mocopi --to 127.0.0.1:12351 --rate 60 --loop
    """
    from pyanticip.motion.load import check_reading
    from realtime.programs.send import send as stream

    check_reading([args.file], args.reading(), rate_for_recordings=True)
    host, port = args.to
    done = stream(
        args.file,
        args.protocol,
        host,
        port,
        loop=args.loop,
        rate=args.rate,
        speed=args.speed,
        seconds=args.seconds,
        progress=_progress(args.as_json),
        say=say,
        **args.reading(),
    )
    refused = f", {done['refused']} refused: nobody listened" if done["refused"] else ""
    unsent = f", {done['unsent']} not sent: the network failed" if done["unsent"] else ""
    sent = f"{counted(done['frames'], 'frame')} in {done['seconds']:.1f} s to {host}:{port}"
    return done, f"{sent}{refused}{unsent}"


@click.command(cls=Command, options=f"{OPTIONS}:SynthOptions")
def synth(args: options.SynthOptions) -> Answer:
    """Play the built-in voice from OSC.

    A synth of its own; Ctrl-C ends it. The exit code is 1 if anything is missing in the --wav file.

    Example: pyanticip synth --port 57140
    """
    from realtime.rig import load_rig
    from realtime.voice.synth import synth as play

    rig = load_rig(args.rig_file, args.over).synth
    found = play(
        args.port,
        host=args.host,
        device=int(args.device) if args.device and args.device.isdecimal() else args.device or rig.device,
        gain=args.gain,
        wav=args.wav,
        seconds=args.seconds,
        preset=rig.preset,
        options=rig.voice_options,
        say=say,
    )
    return found, (), 0 if found["wav_complete"] else 1


@click.command(cls=Command, options="pyanticip.options:JsonOption")
def presets(args: JsonOption) -> Answer:
    """List the presets of the built-in voice.

    Choose with --preset, with [synth] preset in a rig, or by /anticip/control/preset while it plays.

    Example: pyanticip presets --json
    """
    from realtime.voice.open import presets as known

    found = known()
    width = max(map(len, found))
    return found, [f"{name:{width}}  {what}" for name, what in found.items()]


@click.command(cls=Command, options=f"{OPTIONS}:CalibrateOptions")
def calibrate(args: options.CalibrateOptions) -> Answer:
    """Calibrate to a performer: stand still, then move freely.

    Measures the suit's noise and the performer's range, and writes both into the rig as [performer]. With
    FILE, a recording or motion file replaces the suit: all of it is read, and everything that is not
    still counts as moving, so --still and --move do not apply.

    Example: pyanticip calibrate --source mocopi://0.0.0.0 --rig stage.toml
    """
    from pyanticip.motion.atomic import check_folder
    from pyanticip.motion.load import check_reading
    from realtime.programs.calibrate import calibrate_from, calibrate_live
    from realtime.programs.options import MOVE_S, STILL_S
    from realtime.rig import load_rig
    from realtime.rig.edit import edit_rig

    for name in ("still", "move"):
        if args.file is not None and getattr(args, name) is not None:
            raise OptionError(f"--{name} is for a suit; all of {args.file} is read")
    for name in args.reading().keys() - args.body().keys() if args.file is None else ():
        raise OptionError(f"--{name} is for a file; expected a FILE")
    rig_file = args.rig_file
    if args.file is not None:
        check_reading([args.file], args.reading())
    if rig_file is not None:
        check_folder(rig_file)
    rig = load_rig(rig_file if rig_file and rig_file.exists() else None, args.over, **args.reading())
    if args.file is not None:
        table = calibrate_from(args.file, rig, say)
    else:
        table = calibrate_live(rig, args.still or STILL_S, args.move or MOVE_S, say)
    lines = ["[performer]", *(f"{name} = {values}" for name, values in table.items())]
    if rig_file is not None:
        edit_rig(rig_file, {}, {"performer": table})
        lines.append(f"written into {rig_file}; play with: pyanticip live --rig {shell_argument(rig_file)}")
    return table, lines


@click.command(cls=Command, options="pyanticip.options:JsonOption")
def doctor(args: JsonOption) -> Answer:
    """Check what works here: audio, GPU, ports, model.

    Example: pyanticip doctor --json
    """
    from realtime.programs.doctor import doctor as look
    from realtime.programs.doctor import lines

    found = look()
    return found, lines(found), 0 if found["working"] else 1


@click.group(cls=Group)
def rig() -> None:
    """Write or check a rig (configuration) file.

    Every setting of `live`, in TOML.

    Example: pyanticip rig init stage.toml
    """


@rig.command("init", options=f"{OPTIONS}:RigInitOptions")
def rig_init(args: options.RigInitOptions) -> None:
    """Write a commented rig with every key at its built-in value.

    Except [midi] and [[performer]]: see docs/midi.md and docs/performers.md.

    Example: pyanticip rig init stage.toml
    """
    from pyanticip.motion.atomic import write_file
    from realtime.rig import template
    from realtime.rig.load import check_rig_overwrite

    if args.file.exists() and not args.force:
        raise click.UsageError(f"{args.file} exists; --force overwrites it")
    check_rig_overwrite(args.file)
    write_file(args.file, template().encode())
    click.echo(f"wrote {args.file}; play it with: pyanticip live --rig {shell_argument(args.file)}")


@rig.command("check", options=f"{OPTIONS}:RigCheckOptions")
def rig_check(args: options.RigCheckOptions) -> Answer:
    """Check a rig file and summarise it.

    Example: pyanticip rig check stage.toml
    """
    from realtime.programs.check import check_show, device_warnings
    from realtime.rig import load_rig
    from realtime.rig.checks import rig_warnings
    from realtime.rig.load import rig_for_performer
    from realtime.sockets import host_and_port

    try:
        found = load_rig(args.file)
    except RigError as error:
        for line in error.problems[1:]:
            say(line)
        raise RigError(error.problems[0] if error.problems else str(error)) from None
    check_show(found)
    lines = [f"{args.file}: fine"]
    sources = {one.name: one.source_for(found.source) for one in found.performers} or {"": found.source}
    for name, source in sources.items():
        where = source.host if source.kind == "auto" and not source.port else host_and_port(*source.listen)
        whom = f" from {source.sender}" if source.sender else ""
        lines.append(f"  {name and f'{name}: '}listens for {source.kind}{whom} at {where}")
    for target in found.osc:
        lines.append(f"  sends OSC to {target.url} under {target.prefix or '/'}")
    if found.midi.port is not None:
        lines.append(f"  plays MIDI to {found.midi.port}")
    for table in found.sink:
        keys = ", ".join(f"{key} {value}" for key, value in (table.model_extra or {}).items())
        lines.append(f"  plays to a sink of kind {table.kind}{keys and f': {keys}'}")
    if found.mapping is not None:
        from pyanticip.teach.mapping import load_mapping

        mapping = load_mapping(found.mapping)
        plays = [output.describe() for output in mapping.outputs]
        plays += [f"class/{name}" for name in mapping.classes]
        plays += [f"gesture/{gesture.name}" for gesture in mapping.gestures]
        lines.append(f"  plays mapping {mapping.name}: {', '.join(plays)}")
        if not (found.teach or any(one.mapping or one.teach for one in found.performers)):
            lines += [f"  {line}" for line in found.untaught_output_lines(mapping.names)]
    lines += [f"  {line}" for line in (*rig_warnings(found), *device_warnings(found))]
    for one in [rig_for_performer(found, name) for name in sources if name] or [found]:
        if one.cue and one.memory.enabled:
            prefix = f"{one.performer_name}: " if one.performer_name else ""
            lines.append(f"  {prefix}says cues {', '.join(cue.name for cue in one.cue)}")
    return found.model_dump(mode="json"), lines
