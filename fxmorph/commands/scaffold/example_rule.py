"""A rule: two small programs that mean the same.  `fxmorph prove mine_double_by_add --transforms transforms`."""

from fxmorph.model import Level
from fxmorph.rules import rule


@rule(args={"x": "..."}, dtypes=("float32",), claim=Level.BIT_EXACT, preserves=("dtype",))
class mine_double_by_add:
    """Doubles by adding a value to itself.

    Why equivalent: Both round the same real number once, and it has no more digits than x.
    """

    def before(x):
        return x * 2

    def after(x):
        return x + x
