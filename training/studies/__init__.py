"""Research questions, asked by many small runs that are equal but for one thing.

``python -m training.studies geometric-bias`` is the one that is left. Nothing of the product imports
this package, and no wheel holds it.
"""
