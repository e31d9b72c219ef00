"""Research questions, asked by many small runs that are equal but for one thing.

``python -m training.studies`` lists them. Nothing of the product imports this package, and no wheel holds it.
"""
