"""The program counter: where the cursors of PRISM positions are, over the steps of a sequence, as a picture.

Needs matplotlib (the extra ``train``).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from pyanticip.errors import OptionError, ShapeError
from pyanticip.models.core.steering import PositionVectors
from pyanticip.models.parts.positions.prism.module import PrismPositions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Histograms = npt.NDArray[np.float32]


@contextmanager
def _listening(model: nn.Module, seen: list[tuple[str, torch.Tensor]]) -> Iterator[None]:
    sources = {name: m for name, m in model.named_modules() if isinstance(m, PrismPositions)}
    if not sources:
        raise OptionError("the model has no PRISM positions: positions='prism' puts them in")

    def hook(name: str) -> Callable[..., None]:
        def keep(module: nn.Module, arguments: object, result: tuple[PositionVectors, Any]) -> None:
            histograms = result[0].histograms
            assert histograms is not None
            seen.append((name, histograms.detach().float().cpu()))

        return keep

    handles = [module.register_forward_hook(hook(name)) for name, module in sources.items()]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def record_histograms(model: nn.Module, run: Callable[[], object]) -> dict[str, Histograms]:
    """What the cursors of a model do while ``run`` runs it.

    :param run: calls the model, once for a whole sequence or again and again for a stream.
    :returns: for each place of the model that makes places (``"positions"``, ``"again"``) histograms
        (B, L, 2 C, P), the C queries' first.
    :raises OptionError: a model without PRISM positions.
    """
    seen: list[tuple[str, torch.Tensor]] = []
    with torch.no_grad(), _listening(model, seen):
        run()
    names = dict.fromkeys(name for name, _ in seen)
    return {name: torch.cat([h for n, h in seen if n == name], 1).numpy() for name in names}


def plot_program_counter(
    histograms: Histograms,
    tokens: Sequence[str] | None = None,
    *,
    cursors: Sequence[int] | None = None,
    places: int | None = None,
    title: str = "",
) -> "Figure":
    """Histograms of one sequence over time: a panel for each cursor, steps to the right, places upwards.

    :param histograms: (L, 2 C, P) as :func:`record_histograms` gives them for one row.
    :param tokens: L words under the steps.
    :param cursors: pairs of cursors to show, 0 to C - 1; all of them by default. Queries are in the left
        column, keys in the right one.
    :param places: the first so many places; by default up to the last one with a chance above 1 %.
    :raises ShapeError: histograms of another shape, or another number of tokens.
    :raises OptionError: a cursor that does not exist.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    if histograms.ndim != 3 or histograms.shape[1] % 2:
        raise ShapeError(f"expected histograms (L, 2 C, P) of one sequence, got {histograms.shape}")
    steps, double, count = histograms.shape
    if tokens is not None and len(tokens) != steps:
        raise ShapeError(f"expected {steps} tokens, one for each step, got {len(tokens)}")
    pairs = double // 2
    shown = list(range(pairs)) if cursors is None else list(cursors)
    for cursor in shown:
        if not 0 <= cursor < pairs:
            raise OptionError(f"cursors are 0 to {pairs - 1}, got {cursor}")
    if places is None:
        used = np.flatnonzero((histograms > 0.01).any((0, 1)))
        places = int(used.max(initial=0)) + 1
    top = max(2, min(places, count))
    height = 0.6 + len(shown) * max(1.1, min(2.4, 0.09 * top))
    figure = Figure(figsize=(max(7.0, min(16.0, 0.36 * steps + 2)), height), layout="constrained")
    grid = figure.subplots(len(shown), 2, squeeze=False, sharex=True, sharey=True)
    image = None
    for row, cursor in enumerate(shown):
        for column, (kind, index) in enumerate((("query", cursor), ("key", pairs + cursor))):
            axes = grid[row, column]
            image = axes.imshow(
                histograms[:, index, :top].T,
                origin="lower",
                aspect="auto",
                cmap="viridis",
                vmin=0.0,
                vmax=1.0,
                interpolation="nearest",
            )
            axes.set_title(f"{kind} cursor {cursor}", fontsize=8, pad=3)
            axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=5))
            axes.tick_params(labelsize=7)
            if column == 0:
                axes.set_ylabel("place", fontsize=8)
    for axes in grid[-1]:
        if tokens is None:
            axes.set_xlabel("step", fontsize=8)
        else:
            axes.set_xticks(range(steps), tokens, fontsize=6 if steps > 30 else 7)
    if image is not None:
        figure.colorbar(image, ax=grid, shrink=0.9, pad=0.01, label="chance")
    if title:
        figure.suptitle(title, fontsize=9)
    return figure
