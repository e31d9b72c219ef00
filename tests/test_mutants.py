"""The list of mutants still fits the code (``make mutants`` tries them)."""

from mutants.run import ROOT, listed


def test_every_mistake_applies_and_names_existing_tests() -> None:
    mistakes = listed()
    assert len({one.name for one in mistakes}) == len(mistakes)
    for one in mistakes:
        assert one.tests
        assert one.old != one.new
        assert all((ROOT / name).exists() for name in one.tests), one.name
