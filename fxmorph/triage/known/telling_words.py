"""The words that a title, a program or a unit's name is made of, each in one form."""

from __future__ import annotations

import re
from collections.abc import Iterable

#: Words that say nothing about the cause.
_EMPTY = frozenset("""
a an the of in is are was to by with for and or not no on as at its it from that than then where which only when after
before while into same other one two both wrong value result results torch compile compiled inductor instead eager pr
differ different differs output outputs input inputs gives given return returns def import make fn self tensor tensors
call called aten default
""".split())  # fmt: skip
_SHORT = {
    "bf16": "bfloat16", "fp16": "float16", "half": "float16", "f16": "float16", "fp64": "float64", "double": "float64",
    "fp32": "float32", "fp8": "float8", "dims": "dim", "dimension": "dim", "axis": "dim", "dynamo": "dynamo",
    "functionalization": "functionalisation", "vectorized": "vectorised", "mt": "transpose", "permute": "transpose",
    "swapaxes": "transpose", "byte": "uint8", "long": "int64", "short": "int16", "char": "int8", "grad": "gradient",
    "nonfinite": "nan", "inf": "nan", "sdpa": "attention", "scaled": "attention", "sfdp": "attention",
}  # fmt: skip
_ENDINGS = ("ing", "ed", "es", "s")


def telling_words(*texts: str) -> frozenset[str]:
    """Names are taken apart at underscores and capitals, endings cut off, short forms of dtypes written out."""
    return frozenset(_told(texts))


def _told(texts: Iterable[str]) -> Iterable[str]:
    for text in texts:
        for word in re.findall(r"[A-Z]?[a-z]+[0-9]*|[A-Z]+(?![a-z])[0-9]*|[0-9]+", text):
            word = word.lower()
            word = _SHORT.get(word, word)
            if word not in _EMPTY and len(word) > 1:
                yield _stem(word)


def _stem(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) > len(ending) + 3:
            return word[: -len(ending)]
    return word
