import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyanticip.errors import OptionError
from pyanticip.teach.outputs import Output, find_output, parse_output, parse_values, unique_names


def test_the_short_form_is_read_and_written() -> None:
    assert parse_output("mix") == Output("mix")
    cutoff = parse_output("cutoff:200..8000:exponential@/synth/cutoff")
    assert cutoff == Output("cutoff", 200, 8000, "exponential", address="/synth/cutoff")
    bent = parse_output("bend:-1..1:power:3")
    assert (bent.low, bent.high, bent.curve, bent.exponent) == (-1, 1, "power", 3)
    for output in (cutoff, bent, Output("mix")):
        assert parse_output(output.describe()) == output
        assert Output.from_dict(output.to_dict()) == output


@pytest.mark.parametrize(
    "text",
    [
        "",
        "9lives",
        "a/b",
        "mix:1",
        "mix:1..1",
        "mix:a..b",
        "mix:0..1:curly",
        "mix:0..1:exponential",
        "mix:0..1:power:2:3",
        "mix@synth",
        "mix@/a b",
        "mix@/a/*",
        "mix:0..nan",
        "onset",
        "gate",
        "pitch:0..127",
        "pitch@/mine",
        "x" * 49,
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(OptionError) as told:
        parse_output(text)
    assert "\n" not in str(told.value)


@given(
    st.floats(-1e4, 1e4),
    st.floats(-1e4, 1e4),
    st.sampled_from(["linear", "exponential", "power"]),
    st.floats(0, 1),
)
def test_unit_and_range_are_inverse(low: float, high: float, curve: str, unit: float) -> None:
    if curve == "exponential":
        low, high = abs(low) + 1e-2, abs(high) + 1e-2
    if abs(low - high) < 1e-3 * max(abs(low), abs(high), 1.0):
        return
    output = Output("mine", low, high, curve)  # type: ignore[arg-type]
    value = output.range(unit)
    assert output.to_unit(value) == pytest.approx(unit, abs=1e-6)
    assert output.to_units(np.array([value, low, high])) == pytest.approx([unit, 0, 1], abs=1e-6)
    assert 0 <= output.to_unit(high + 1e6) <= 1


def test_values_and_names() -> None:
    assert parse_values("a=.5, b=-2") == {"a": 0.5, "b": -2.0}
    for bad in ("", "a", "a=", "a=x", "a=nan", "a=1,a=2", "=1"):
        with pytest.raises(OptionError, match="values"):
            parse_values(bad)
    with pytest.raises(OptionError, match="did you mean brightness"):
        find_output([Output("brightness")], "brigthness")
    with pytest.raises(OptionError, match="twice"):
        unique_names([Output("a"), Output("a")])
    with pytest.raises(OptionError, match="address '/x' is given twice"):
        unique_names([Output("a", address="/x"), Output("b", address="/x")])


def test_where_outputs_rest() -> None:
    assert Output("cutoff", 100, 400, neutral=400).rest == 1.0
    assert Output("mix").rest == 0.0
    assert Output("pan").rest == 0.5
    with pytest.raises(OptionError, match="outside"):
        Output("mix", neutral=2)
    assert math.isclose(Output("f", 100, 10000, "exponential", neutral=1000).rest, 0.5)
