"""Research studies: comparisons of many small runs that differ in one respect.

``python -m training.studies geometric-bias`` is the only one at present. The product does not import this
package, and it is not part of the wheel.
"""
