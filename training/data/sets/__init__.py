"""Sets of prepared motion: built once from a folder of takes, then memory-mapped."""

from training.data.sets.builder import BuildReport, build, merge
from training.data.sets.format import ClipEntry, MotionSet, is_set
from training.data.sets.vary import Recipe, augment, read_recipe

__all__ = [
    "BuildReport",
    "ClipEntry",
    "MotionSet",
    "Recipe",
    "augment",
    "build",
    "is_set",
    "merge",
    "read_recipe",
]
