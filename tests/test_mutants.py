"""The list of mistakes that tests are tried by still fits the code (``make mutants`` makes them)."""

from mutants.draw import EXCUSED, drawn, every
from mutants.mistakes import ROOT, listed


def test_every_mistake_can_be_made_and_names_tests_that_exist() -> None:
    mistakes = listed()
    assert len({one.name for one in mistakes}) == len(mistakes)
    for one in mistakes:
        assert one.tests
        assert one.old != one.new
        assert all((ROOT / name).exists() for name in one.tests), one.name


def test_what_is_drawn_is_the_same_for_a_seed_and_has_tests_that_are_asked() -> None:
    rooms = "pyanticip/motion/[a-n]|realtime/sinks/o|anticip-wire/src/v"  # of all of them it takes its time
    mistakes = drawn(40, 1, rooms)
    assert mistakes == drawn(40, 1, rooms) != drawn(40, 2, rooms)
    assert {one.file.endswith(".rs") for one in mistakes} == {True, False}
    for one in mistakes:
        text = (ROOT / one.file).read_text(encoding="utf-8")
        assert text[one.start :].startswith(one.old)
        assert one.applied(text) != text
        assert one.tests
        assert all((ROOT / name).exists() for name in one.tests), one.file
        if one.file.endswith(".py"):
            compile(one.applied(text), one.file, "exec")


def test_what_is_excused_could_still_be_drawn() -> None:
    for file, name, line in EXCUSED:
        assert any((one.name, one.why) == (name, line) for one in every(file)), line
