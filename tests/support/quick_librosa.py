"""librosa for tests: of the loops that it compiles when it is first used, those that we use."""

from typing import Any

USED = {"_cabs2": "complex", "__peak_pick": "float32", "_localmin": "float64", "_pi_wrapper": "float64"}
"""The loops that a sound is heard with, and the type of each: for another they fail, and so do tests."""


def compile_less() -> list[str]:
    """Before librosa is used. The list is told what is loaded from files or kept in them, as it happens."""
    import numba
    from numba.core.caching import Cache

    told: list[str] = []
    for kind in ("vectorize", "guvectorize"):
        setattr(numba, kind, _only(getattr(numba, kind)))
    for name in ("load_overload", "save_overload"):
        setattr(Cache, name, _telling(told, getattr(Cache, name)))
    return told


def _only(real: Any) -> Any:
    def decorate(signatures: list[str], *more: Any, **options: Any) -> Any:
        def made(loop: Any) -> Any:
            wanted = [s for s in signatures if USED.get(loop.__name__, "none") in s.partition(",")[0]]
            return real(wanted, *more, **options)(loop) if wanted else loop

        return made

    return decorate


def _telling(told: list[str], real: Any) -> Any:
    def tell(self: Any, *given: Any) -> Any:
        told.append(real.__name__)
        return real(self, *given)

    return tell
