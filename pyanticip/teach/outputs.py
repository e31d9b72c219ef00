"""The outputs that a performer teaches: names, ranges, curves, OSC addresses.

Heads compute every output in 0..1; users give values in the output's own unit. :class:`Output` converts
between the two, :func:`parse_output` reads the short form of the command line.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import ValidationError

from pyanticip.controls import NEUTRAL, Range
from pyanticip.errors import OptionError, suggestion
from pyanticip.options import first_problem
from pyanticip.vocabulary import EVENTS, PARAMETERS, SCALARS

MAX_OUTPUTS = 64
"""Most outputs of a project: a bundle of more would not fit a datagram that no network fragments."""

Curve = Literal["linear", "exponential", "power"]

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,47}")
_ADDRESS = re.compile(r"(/[^\s#*,/?\[\]{}]+)+")
# Names of other columns of a render and of other parts of a bundle.
_RESERVED = frozenset(
    {"t", "seconds", "seq", "frame", "gate", "scalars", "params", "status", *EVENTS, *SCALARS}
)


@dataclass(frozen=True, slots=True)
class Output:
    """One taught output.

    ``low`` and ``high`` are its values at 0 and 1, along ``curve`` (see :class:`pyanticip.controls.Range`);
    ``address`` is the OSC address that it is sent to (None: ``/anticip/param/<name>``); ``neutral`` is its
    value in silence, in its own unit (None: ``low``, or for the eight sound parameters the mixer's value).
    The eight sound parameters are 0..1 and have no address here: the rig sets it for each receiver.

    Raises:
        OptionError: an invalid name, range or address.
    """

    name: str
    low: float = 0.0
    high: float = 1.0
    curve: Curve = "linear"
    exponent: float = 2.0
    address: str | None = None
    neutral: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise OptionError(
                f"output name: expected a letter, then letters, digits, _, - (48 at most), got {self.name!r}"
            )
        if self.name in _RESERVED:
            raise OptionError(f"output name: {self.name!r} already means something else, choose another")
        numbers = (self.low, self.high, self.exponent, 0.0 if self.neutral is None else self.neutral)
        if not all(isinstance(x, int | float) and math.isfinite(x) and abs(x) <= 1e30 for x in numbers):
            raise OptionError(f"output {self.name}: expected finite numbers, got {numbers}")
        if self.low == self.high:
            raise OptionError(f"output {self.name}: expected two different ends, got {self.low:g} twice")
        if self.curve not in ("linear", "exponential", "power"):
            raise OptionError(
                f"output {self.name}: expected curve linear, exponential or power, got {self.curve!r}"
            )
        try:
            _ = self.range
        except ValidationError as error:
            raise OptionError(f"output {self.name}: {first_problem(error)}") from None
        if self.neutral is not None and not self.contains(self.neutral):
            raise OptionError(
                f"output {self.name}: neutral {self.neutral:g} is outside {self.low:g}..{self.high:g}"
            )
        if self.address is not None and not (
            isinstance(self.address, str) and len(self.address) <= 200 and _ADDRESS.fullmatch(self.address)
        ):
            raise OptionError(
                f"output {self.name}: expected an OSC address as /synth/cutoff, got {self.address!r}"
            )
        if self.name in PARAMETERS and (self.low, self.high, self.curve) != (0.0, 1.0, "linear"):
            raise OptionError(
                f"output {self.name}: a sound parameter is 0..1; give the receiver a range in the rig "
                f"(ranges.{self.name}), or choose another name"
            )
        if self.name in PARAMETERS and self.address is not None:
            raise OptionError(
                f"output {self.name}: a sound parameter's address is set in the rig (addresses.{self.name})"
            )

    @property
    def problem(self) -> str:
        """An error message if the address or the name is one of the instrument's own, else ``""``.

        New outputs with such a one are refused; projects and mappings of earlier versions keep it.
        """
        if self.name.removesuffix("_ahead") in EVENTS:
            return f"output {self.name}: render has a column of that name; rename it: teach outputs --rename"
        address = self.address or ""
        if not address.startswith("/anticip/") or address == f"/anticip/param/{self.name}":
            return ""
        return f"output {self.name}: {address} is the instrument's own; expected another address, as /synth/x"

    @property
    def range(self) -> Range:
        """The mapping from 0..1 to the output's own unit."""
        return Range(low=self.low, high=self.high, curve=self.curve, exponent=self.exponent)

    def contains(self, value: float) -> bool:
        """Whether a value, in the output's own unit, is within its range."""
        return min(self.low, self.high) <= value <= max(self.low, self.high)

    def to_unit(self, value: float) -> float:
        """Convert from the output's own unit to 0..1, clipped: the inverse of :attr:`range`."""
        value = min(max(value, min(self.low, self.high)), max(self.low, self.high))
        if self.curve == "exponential":
            return math.log(value / self.low) / math.log(self.high / self.low)
        unit = (value - self.low) / (self.high - self.low)
        return float(unit ** (1.0 / self.exponent)) if self.curve == "power" else unit

    def to_units(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """:meth:`to_unit` of an array of values."""
        distinct, index = np.unique(values, return_inverse=True)
        return np.array([self.to_unit(float(v)) for v in distinct])[index]

    @property
    def rest(self) -> float:
        """Its value in silence, in 0..1."""
        if self.neutral is not None:
            return self.to_unit(self.neutral)
        return NEUTRAL[PARAMETERS.index(self.name)] if self.name in PARAMETERS else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Output:
        """The inverse of :meth:`to_dict`.

        Raises:
            OptionError: other fields, or invalid values.
        """
        try:
            return cls(**fields)
        except TypeError:
            raise OptionError(
                f"output: expected fields {', '.join(cls.__slots__)}, got {sorted(map(str, fields))}"
            ) from None

    def describe(self) -> str:
        """The short form that :func:`parse_output` reads; a range of 0..1 is left out."""
        text = self.name
        if (self.low, self.high, self.curve) != (0.0, 1.0, "linear"):
            text += f":{self.low:g}..{self.high:g}"
            if self.curve != "linear":
                text += f":{self.curve}" + (f":{self.exponent:g}" if self.curve == "power" else "")
        return text + (f"@{self.address}" if self.address else "")


def parse_output(text: str) -> Output:
    """An output from ``NAME[:LOW..HIGH[:CURVE[:EXPONENT]]][@ADDRESS]``, as ``cutoff:200..8000:exponential``.

    Raises:
        OptionError: the text has another form, or the output is invalid.
    """
    return Output(**parse_fields(text))


def parse_fields(text: str) -> dict[str, Any]:
    """The fields of an :class:`Output` that a text as of :func:`parse_output` gives, ``name`` included.

    Raises:
        OptionError: the text has another form.
    """
    head, mark, address = text.strip().partition("@")
    name, *parts = head.split(":")
    fields: dict[str, Any] = {"name": name}
    try:
        if parts:
            low, dots, high = parts[0].partition("..")
            if not dots or len(parts) > 3:
                raise ValueError
            fields |= {"low": float(low), "high": float(high)}
        if len(parts) > 1:
            fields["curve"] = parts[1]
        if len(parts) > 2:
            fields["exponent"] = float(parts[2])
    except ValueError:
        raise OptionError(
            f"output: expected NAME[:LOW..HIGH[:CURVE[:EXPONENT]]][@ADDRESS], got {text!r}"
        ) from None
    if mark:
        fields["address"] = address
    return fields


def parse_values(text: str) -> dict[str, float]:
    """Target values from ``brightness=.8,pitch=.2`` (separated by commas or blanks).

    Raises:
        OptionError: the text has another form, or names an output twice.
    """
    values: dict[str, float] = {}
    for part in re.split(r"[,\s]+", text.strip()):
        name, mark, number = part.partition("=")
        try:
            value = float(number)
        except ValueError:
            value = math.nan
        if not mark or not name or not math.isfinite(value):
            raise OptionError(f"values: expected NAME=NUMBER,..., got {text!r}")
        if name in values:
            raise OptionError(f"values: {name!r} is given twice")
        values[name] = value
    return values


def find_output(outputs: Sequence[Output], name: str) -> Output:
    """The output of that name.

    Raises:
        OptionError: there is none; the message suggests the most similar name.
    """
    for output in outputs:
        if output.name == name:
            return output
    names = [output.name for output in outputs]
    hint = suggestion(name, names) or f"; there are {', '.join(names) or 'none yet'}"
    raise OptionError(f"no output {name!r}{hint}")


def check_outputs(outputs: Sequence[Output], before: Sequence[Output] = ()) -> None:
    """Check the addresses and names of outputs that are not among those ``before``.

    Raises:
        OptionError: an address or a name is one of the instrument's own.
    """
    for output in outputs:
        if output.problem and output not in before:
            raise OptionError(output.problem)


def unique_names(outputs: Iterable[Output]) -> tuple[Output, ...]:
    """The outputs as a tuple.

    Raises:
        OptionError: too many, or a name or address is used twice.
    """
    result = tuple(outputs)
    if len(result) > MAX_OUTPUTS:
        raise OptionError(f"outputs: at most {MAX_OUTPUTS}, got {len(result)}")
    for what, used in (
        ("name", [o.name for o in result]),
        ("address", [o.address for o in result if o.address is not None]),
    ):
        duplicate = next((x for i, x in enumerate(used) if x in used[:i]), None)
        if duplicate is not None:
            raise OptionError(f"outputs: {what} {duplicate!r} is given twice")
    return result
