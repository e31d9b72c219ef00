"""Sets of prepared motion: built once from a folder of takes, opened at no cost, the same for everybody."""

from training.sets.builder import BuildReport, build
from training.sets.format import ClipEntry, MotionSet, is_set

__all__ = ["BuildReport", "ClipEntry", "MotionSet", "build", "is_set"]
