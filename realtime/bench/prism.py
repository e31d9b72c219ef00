"""``pyanticip bench prism``: the recurrent network and the histogram scan of PRISM positions, without and
with a Python loop per step.

Four forms of the same module, with the same weights, take turns on the same input:

* *fused*: as a model runs it: recurrence and scan as one kernel each in Rust (on a GPU torch's recurrent
  network and, with triton, a kernel for the scan), one product for all gates;
* *scan in a loop*: the same, but the histograms move step by step in torch;
* *both in a loop*: recurrent network and histograms step by step; the products with the gates' weights and
  with the table of places are still one for the whole sequence, as they need no loop;
* *all in a loop*: everything step by step, as a stream goes.

Beside them, on the same moves: *the kernel alone*, from moves to places, and *its loop*, the same by
:func:`~pyanticip.models.parts.positions.prism.scan.scan_loop` and one product. What they give, values and
gradients, is compared before anything is timed.
"""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table

from pyanticip.errors import OptionError
from realtime.bench.machine import machine, percentiles

if TYPE_CHECKING:
    from torch import Tensor

    from pyanticip.models.parts.positions.prism.module import PrismPositions

__all__ = ["run", "table"]

FORMS = ("fused", "scan in a loop", "both in a loop", "all in a loop")
KERNEL = ("the kernel alone", "its loop")
BAR = 5.0
"""How much faster than a loop the fused form has to be, forward and backward."""
D_MODEL = 128


def run(
    seconds: float = 60.0,
    *,
    batch: int = 32,
    length: int = 256,
    places: int = 256,
    cursors: int = 4,
    copying: bool = False,
    threads: int = 1,
    device: str = "cpu",
) -> dict[str, Any]:
    """Measure; the object that ``--json`` prints.

    :param seconds: about how long, all in all; each form runs at least three times after its warm-up.
    :param cursors: pairs of cursors: as many for queries and for keys.
    :param copying: whether one query cursor in five can copy.
    :param threads: of torch and of the kernel; 0 leaves both to themselves.
    :param device: ``"cpu"`` or ``"cuda"``.
    :returns: ``forms`` by name: ``forward_ms`` and ``training_ms`` (forward and backward) on the wall clock,
        ``cpu_ms`` of the processor for the latter (what a busy machine disturbs least); ``faster`` by form:
        ratios of the medians to those of the fused form, or of the kernel for its loop; ``differences`` of
        values and gradients from those of the loops, relative to the largest number of each tensor.
    :raises DeviceError: no such device here.
    """
    if not 1.0 <= seconds <= 3600.0:
        raise OptionError(f"seconds: expected 1 to 3600, got {seconds:g}")
    if threads:
        # Read when the kernel first runs, which must not have been yet.
        os.environ["RAYON_NUM_THREADS"] = str(threads)
    import torch

    from pyanticip.models.config import ModelConfig
    from pyanticip.models.parts.positions.prism.module import PrismPositions
    from realtime.bench.device import chosen

    chosen(device)
    if threads:
        torch.set_num_threads(threads)
    torch.manual_seed(0)
    cfg = ModelConfig(
        positions="prism", d_model=D_MODEL, prism_cursors=cursors, prism_places=places, prism_copy=copying
    )
    module = PrismPositions(cfg).to(device)
    x = torch.randn(batch, length, D_MODEL, device=device)
    weights = torch.randn(2, batch, length, module.cursors, module.width, device=device)
    wandering = PrismPositions(replace(cfg, prism_spread=1.0, prism_reset=0.05)).to(device)
    differences = _differences(module, wandering, x[:4], weights[:, :4])
    took: dict[str, dict[str, list[float]]] = {
        form: {"forward_ms": [], "training_ms": [], "cpu_ms": []} for form in (*FORMS, *KERNEL)
    }
    with torch.no_grad():
        moves = module.scan_inputs(x)[0]
    read = torch.randn(batch, 2 * cursors, length, module.width, device=device)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(took[KERNEL[-1]]["forward_ms"]) < 4:
        for form in FORMS:
            module.zero_grad()
            out = partial(_places, module, form, x.detach().requires_grad_())
            _note(took[form], out, weights)
        for form in KERNEL:
            inputs = [None if t is None else t.detach().requires_grad_() for t in moves]
            _note(took[form], partial(_read_out, form, inputs, module.table), read)
    # The first round warms up.
    kept = {
        form: {name: np.array(values[1:]) for name, values in times.items()} for form, times in took.items()
    }
    against = dict.fromkeys(FORMS[1:], FORMS[0]) | {KERNEL[1]: KERNEL[0]}
    return {
        "forms": {
            form: {name: percentiles(values, (50, 90)) for name, values in times.items()}
            for form, times in kept.items()
        },
        "faster": {
            form: {
                name.removesuffix("_ms"): round(float(np.median(slow) / np.median(kept[fast][name])), 3)
                for name, slow in kept[form].items()
            }
            for form, fast in against.items()
        },
        "differences": differences,
        "bar": BAR,
        "runs": len(kept[FORMS[0]]["cpu_ms"]),
        "batch": batch,
        "length": length,
        "places": places,
        "cursors": 2 * cursors,
        "copy": copying,
        "threads": threads or torch.get_num_threads(),
        "device": device,
        "dtype": "float32",
        "seconds": seconds,
        **machine(),
    }


def table(result: dict[str, Any]) -> Table:
    """The result as a table for people."""
    differences = "; ".join(
        f"{name} {found['values']:.1e} and {found['gradients']:.1e}"
        for name, found in result["differences"].items()
    )
    shown = Table(
        title=(
            f"PRISM positions, B {result['batch']}, L {result['length']}, P {result['places']}, "
            f"{result['cursors']} cursors, {result['dtype']}, {result['threads']} threads, {result['device']}"
        ),
        caption=(
            f"largest relative difference of values and gradients: {differences}\n"
            f"{result['runs']} runs of each, {result['cpu']}"
        ),
    )
    for column in ("", "forward ms", "both ms", "processor ms", "fused is faster", "by processor"):
        shown.add_column(column, justify="right" if column else "left")
    for form, times in result["forms"].items():
        cells = [f"{times[name]['p50']:.1f}" for name in ("forward_ms", "training_ms", "cpu_ms")]
        ratios = result["faster"].get(form)
        cells += ["", ""] if ratios is None else [f"{ratios['training']:.2f} x", f"{ratios['cpu']:.2f} x"]
        shown.add_row(form, *cells)
    return shown


def _places(module: PrismPositions, form: str, x: Tensor) -> Tensor:
    """Position vectors (2, B, L, C, d) of queries and keys, in one of the forms."""
    import torch

    module.reference = form != FORMS[0]
    module.recurrent.reference = form == FORMS[2]
    if form != FORMS[3]:
        places, _ = module(x)
        return torch.stack((places.queries, places.keys))
    state, steps = module.initial_state(x.shape[0]), []
    for t in range(x.shape[1]):
        places, state = module(x[:, t : t + 1], state)
        steps.append(torch.stack((places.queries, places.keys)))
    return torch.cat(steps, 2)


def _read_out(form: str, inputs: list[Tensor | None], table: Tensor) -> Tensor:
    """Superpositions (B, C, L, d) of given moves, by the kernel or the loop."""
    from pyanticip.models.parts.positions.prism.scan import scan, scan_loop
    from pyanticip.models.parts.positions.prism.superposition import places_available, superpose

    moves, start, gamma, jumps = inputs
    assert moves is not None
    assert start is not None
    if form == KERNEL[0] and places_available(moves, start, table):
        return superpose(moves, start, gamma, jumps, table)[0]
    return (scan if form == KERNEL[0] else scan_loop)(moves, start, gamma, jumps) @ table


def _note(took: dict[str, list[float]], run: Callable[[], Tensor], weights: Tensor) -> None:
    """Milliseconds of one run forward and, gradients of everything included, back."""
    import torch

    def now() -> float:
        if weights.device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    begun, used = now(), time.process_time()
    out = run()
    middle = now()
    torch.autograd.backward(out, weights)
    done = now()
    took["forward_ms"].append(1e3 * (middle - begun))
    took["training_ms"].append(1e3 * (done - begun))
    took["cpu_ms"].append(1e3 * (time.process_time() - used))


def _differences(
    module: PrismPositions, wandering: PrismPositions, x: Tensor, weights: Tensor
) -> dict[str, dict[str, float]]:
    """Of the fused form from the loop: as modules start, with cursors that seldom start over (sharpening then
    lets rounding grow from step to step, in the loop as well: how far that is from double precision stands
    beside it), and in double precision."""
    loop, fused = FORMS[3], FORMS[0]
    start = _passes(module, fused, x, weights), _passes(module, loop, x, weights)
    single = _passes(wandering, fused, x, weights), _passes(wandering, loop, x, weights)
    twin, exact = copy.deepcopy(wandering).double(), (x.double(), weights.double())
    double = _passes(twin, fused, *exact), _passes(twin, loop, *exact)
    return {
        "at the start": _difference(*start),
        "wandering": _difference(*single),
        "wandering, loop from double": _difference(single[1], double[1]),
        "wandering, double": _difference(*double),
    }


def _passes(module: PrismPositions, form: str, x: Tensor, weights: Tensor) -> list[Tensor]:
    """Position vectors, and the gradients of input and weights."""
    import torch

    x = x.detach().requires_grad_()
    out = _places(module, form, x)
    return [out.detach(), *torch.autograd.grad((out * weights).sum(), [x, *module.parameters()])]


def _difference(mine: list[Tensor], theirs: list[Tensor]) -> dict[str, float]:
    """Relative to the largest number of each tensor: of the places, and the worst of the gradients."""
    found = [
        float((a - b).abs().max() / b.abs().max().clamp(min=1e-12)) for a, b in zip(mine, theirs, strict=True)
    ]
    return {"values": found[0], "gradients": max(found[1:])}
