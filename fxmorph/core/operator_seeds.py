"""Seeds that are no files: calls of an operator on the samples of torch's own tests.

``op:NAME``, ``op:NAME:DTYPE`` or ``op:NAME:DTYPE[SETTING PART]``, as in ``op:roll:int64[fused 2]``; the dtype may be
``mixed``: half of the calls in the one that most programs have, the others each in another.  ``op:NAME+NAME`` is one
program of the calls of several operators.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from enum import StrEnum

from fxmorph.core.versions import version_of
from fxmorph.model import Seed, digest

FORM, PREFIX = "operator", "op:"
#: In the place of a dtype.
MIXED = "mixed"


class Setting(StrEnum):
    """What stands around the calls of a program."""

    ALONE = "alone"  #: the calls, without gradients
    BACKWARD = "backward"  #: their inputs require grad
    FUSED = "fused"  #: pointwise operators before and after each, the result used twice
    TRAINED = "trained"  #: fused, and the inputs require grad: gradients of what is computed again for them
    IN_PLACE = "in-place"  #: the variant of the operator that writes its first argument
    CHANGED = "changed"  #: calls of the overloads that it is made of, with arguments changed on purpose

    @property
    def differentiated(self) -> bool:
        return self in (Setting.BACKWARD, Setting.TRAINED)

    @property
    def fused(self) -> bool:
        return self in (Setting.FUSED, Setting.TRAINED)


@dataclass(frozen=True)
class OperatorProgram:
    """Some calls of ``operator``, or of several with ``+`` between them.

    ``part`` counts programs of calls that differ, the most unlike ones first.
    """

    operator: str
    dtype: str = "float32"
    setting: Setting = Setting.ALONE
    part: int = 0

    @property
    def operators(self) -> list[str]:
        return self.operator.split("+")

    def seed(self) -> Seed:
        """Samples are those of the installed torch, so that its release is a part of the hash."""
        path, mode = PREFIX + self.operator, f"{self.setting} {self.part}"
        origin = f"samples of {self.operator} in torch's own tests"
        key = digest([path, self.dtype, mode, version_of("torch")])
        return Seed(path, FORM, key, self.dtype, mode, origin)

    @staticmethod
    def of(seed: Seed) -> OperatorProgram:
        setting, _, part = seed.mode.rpartition(" ")
        return OperatorProgram(seed.path.removeprefix(PREFIX), seed.name, Setting(setting), int(part))


@dataclass(frozen=True)
class ListedOperator:
    """An operator of the tests: in which dtypes programs of it are made, preferred ones first, and in how many parts.

    Whether it has gradients in the first of them, and a variant that works in place; ``lowerings`` are the overloads
    that its first call reaches and Inductor lowers itself, each with the words among its arguments, such as
    ``aten.div.Tensor_mode trunc``; ``code`` are the functions that lower them, of which many share one.
    """

    name: str
    dtypes: tuple[str, ...]
    parts: int
    differentiable: bool
    in_place: bool
    lowerings: frozenset[str] = frozenset()
    code: frozenset[str] = frozenset()


def part_of_tests(name: str, parts: int) -> int:
    """Which of so many parts of torch's tests has the one of that name."""
    return zlib.crc32(name.encode()) % parts


def operator_seeds(text: str) -> list[Seed]:
    """The seeds that the text names, one in each setting where it names none; raises ``ValueError``."""
    found = re.fullmatch(r"op:([\w.]+(?:\+[\w.]+)*)(?::(\w+))?(?:\[([\w-]+)(?: (\d+))?\])?", text)
    if found is None:
        raise ValueError(
            "want op:NAME, op:NAME:DTYPE or op:NAME:DTYPE[SETTING PART], or several NAMEs with + between them"
        )
    name, dtype, setting, part = found.groups()
    if setting is not None and setting not in list(Setting):
        raise ValueError(f"no setting {setting!r}: want {', '.join(Setting)}")
    chosen = [Setting(setting)] if setting else [Setting.ALONE, Setting.BACKWARD, Setting.FUSED]
    return [OperatorProgram(name, dtype or "float32", s, int(part or 0)).seed() for s in chosen]
