"""Random programs that are valid by construction, as texts of seeds.

Nothing here imports torch: shapes, strides, dtypes, shared memory and the range of values are followed in Python, and
every choice is drawn from a number, so that the same number gives the same text on every machine.
"""
