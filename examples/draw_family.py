"""Draw the model family: the data flow, and the paper that each part comes from.

python examples/draw_family.py docs/img/family.png
"""

import argparse

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

COLOURS = {
    "000": ("#dfe7f2", "trunk: bias, two pathways, gates"),
    "001": ("#f9dcc4", "learned positions (PRISM)"),
    "002": ("#d8ecd4", "planning signal"),
    "003": ("#f6efb9", "trajectory positions"),
    "004": ("#ecd4e6", "control field"),
    "own": ("#f0f0f0", "fronts and heads"),
}


class Sheet:
    """Draws boxes, arrows and notes on an axis."""

    def __init__(self, axis: Axes) -> None:
        self.axis = axis

    def box(
        self, x: float, y: float, width: float, height: float, text: str, paper: str, size: float = 9
    ) -> None:
        """Draw a rounded box with its lower left corner at (x, y)."""
        self.axis.add_patch(
            FancyBboxPatch(
                (x, y), width, height, boxstyle="round,pad=0.02,rounding_size=0.12",
                facecolor=COLOURS[paper][0], edgecolor="#444444", linewidth=1.0,
            )
        )  # fmt: skip
        self.axis.text(x + width / 2, y + height / 2, text, ha="center", va="center", fontsize=size)

    def arrow(
        self, start: tuple[float, float], end: tuple[float, float], style: str = "-", bend: float = 0.0
    ) -> None:
        """Draw an arrow from ``start`` to ``end``."""
        self.axis.add_patch(
            FancyArrowPatch(
                start, end, arrowstyle="-|>", mutation_scale=11, linewidth=1.1, linestyle=style,
                color="#333333", connectionstyle=f"arc3,rad={bend}", shrinkA=0, shrinkB=2,
            )
        )  # fmt: skip

    def note(self, x: float, y: float, text: str, size: float = 8, align: str = "center") -> None:
        """Draw small text."""
        self.axis.text(x, y, text, ha=align, va="center", fontsize=size, color="#333333")


def draw(path: str) -> None:
    """Write the picture to ``path``."""
    figure, axis = plt.subplots(figsize=(12, 7.0), dpi=130)
    sheet = Sheet(axis)
    axis.set_xlim(0, 16.7)
    axis.set_ylim(0.7, 10.1)
    axis.axis("off")

    sheet.box(0.2, 8.1, 2.6, 1.1, "tokens\nembedding", "own")
    sheet.box(0.2, 6.3, 2.6, 1.1, "body frames at 50 Hz\nkinematics, causal filter", "own")
    sheet.box(3.6, 7.2, 1.7, 1.1, "x", "own", 12)
    sheet.arrow((2.85, 8.65), (3.6, 7.95))
    sheet.arrow((2.85, 6.85), (3.6, 7.5))

    sheet.note(4.45, 9.75, "positions: added to x", 8)
    sheet.box(3.1, 8.95, 1.35, 0.6, "sinusoids", "own", 8)
    sheet.box(4.6, 8.95, 1.75, 0.6, "trajectory:\ncontent moves them", "003", 7.5)
    sheet.arrow((3.8, 8.95), (4.2, 8.32))
    sheet.arrow((5.3, 8.95), (4.8, 8.32))

    sheet.box(3.1, 5.2, 2.7, 1.0, "seven scalars: given, or by\nthe anticipation head", "000", 8)
    sheet.arrow((4.45, 7.2), (4.45, 6.22))
    sheet.box(3.1, 3.7, 2.7, 0.9, "trajectory bias\nb(scalars) exp(-alpha distance)", "000", 8)
    sheet.arrow((4.45, 5.2), (4.45, 4.62))
    sheet.box(3.1, 2.3, 2.7, 0.8, "prism: cursors move over\nplaces, learned", "001", 8)
    sheet.box(3.1, 1.1, 2.7, 0.6, "rope, alibi: fixed", "own", 8)

    # The fast pathway, with the inside of a block.
    sheet.box(7.0, 1.0, 5.0, 7.6, "", "000")
    sheet.note(9.5, 8.3, "fast pathway: local blocks, every step", 9)
    sheet.box(7.3, 6.2, 2.6, 1.1, "attention over a ring\nof past steps", "000", 8.5)
    sheet.box(7.3, 3.4, 2.6, 1.1, "feed-forward", "000", 8.5)
    sheet.box(10.3, 4.6, 1.5, 2.7, "control\nfield:\nrisk held\nover time", "004", 8.5)
    sheet.arrow((10.3, 6.75), (9.95, 6.75))
    sheet.note(10.12, 7.52, "gate of keys", 7.5)
    sheet.arrow((11.05, 4.6), (9.95, 3.95), bend=-0.25)
    sheet.note(10.95, 3.72, "scale by\ncurvature", 7.5)
    sheet.arrow((8.6, 6.2), (8.6, 4.52))
    sheet.box(
        7.3,
        1.3,
        4.5,
        1.2,
        "plan of the step: codes expected within\nthe next K steps (first block looks at it)",
        "002",
        8,
    )
    sheet.arrow((7.75, 2.52), (7.75, 6.2), style="--")
    sheet.arrow((5.35, 7.75), (7.0, 7.75))
    sheet.arrow((5.85, 4.15), (7.28, 6.3), bend=-0.1)
    sheet.arrow((5.85, 2.7), (7.28, 6.22), style="--", bend=0.0)
    sheet.arrow((5.85, 1.4), (7.28, 6.2), style="--", bend=0.05)
    sheet.note(6.35, 5.85, "scores", 7.5)

    sheet.box(
        7.0,
        8.95,
        5.0,
        0.85,
        "slow pathway: the same blocks over pools\nof slow_stride steps, held in between",
        "000",
        8.5,
    )
    sheet.arrow((5.35, 8.1), (7.0, 9.2), bend=-0.1)

    sheet.box(12.9, 7.2, 1.3, 1.1, "pathway\ngate", "000", 8.5)
    sheet.arrow((12.05, 7.75), (12.9, 7.75))
    sheet.arrow((12.05, 9.35), (13.5, 8.32), bend=-0.2)
    sheet.box(12.5, 5.3, 3.2, 1.0, "hidden state\nrefined scalars, commitment gate", "000", 8)
    sheet.arrow((13.55, 7.2), (13.9, 6.32))
    sheet.box(12.5, 3.6, 3.2, 1.0, "next token; or sound parameters\nto 400 ms ahead, events", "own", 8)
    sheet.arrow((14.1, 5.3), (14.1, 4.62))
    sheet.box(12.5, 1.4, 3.2, 1.1, "anticipator: what comes\nwithin the next K steps", "002", 8.5)
    sheet.arrow((15.75, 5.8), (15.75, 1.95), bend=-0.35)
    sheet.arrow((12.48, 1.9), (11.82, 1.9))
    sheet.note(12.9, 1.05, "one step later", 7.5)

    for i, (colour, text) in enumerate(COLOURS.values()):
        x, y = 0.25, 4.9 - 0.52 * i
        axis.add_patch(
            FancyBboxPatch(
                (x, y), 0.3, 0.24, boxstyle="round,pad=0.02", facecolor=colour, edgecolor="#444444"
            )
        )
        label = text if len(text) < 24 else text.replace(": ", ":\n").replace(" (", "\n(")
        sheet.note(x + 0.45, y + 0.12, label, 7.5, "left")
    figure.tight_layout(pad=0.3)
    figure.savefig(path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Draw the model family.")
    parser.add_argument("path", help="where to write the picture, e.g. docs/img/family.png")
    draw(parser.parse_args().path)
