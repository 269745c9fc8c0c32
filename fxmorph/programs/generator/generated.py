"""A random program as the text of a seed."""

from __future__ import annotations

from collections.abc import Mapping

from fxmorph.programs.generator.catalogue import DIET, FAMILIES, LONG_DIET
from fxmorph.programs.generator.dice import Dice
from fxmorph.programs.generator.draft import Draft, Mood, Value
from fxmorph.programs.generator.fresh_inputs import DTYPE_WEIGHTS, DTYPES
from fxmorph.programs.generator.promotion import FLOATS
from fxmorph.programs.generator.spans import NoFit
from fxmorph.programs.generator.strided import Layout

#: How many operators a program has, and how often.
LENGTHS, LENGTH_WEIGHTS = tuple(range(1, 13)), (6, 10, 12, 12, 12, 11, 10, 8, 6, 5, 4, 4)
#: Those of a long program.
LONG = 70
#: Values that a program returns at most, and a long one.
MOST_RETURNED, LONG_RETURNED = 8, 64
#: Draws at most, for a program and for a long one.
TRIES, LONG_TRIES = 40, 6 * LONG


def generated_text(campaign_seed: int, number: int, diet: Mapping[str, float] | None = None, long: bool = False) -> str:
    """Program ``number`` of the campaign's seed, as a seed file; ``diet`` are weights of families of operators.

    A ``long`` one has :data:`LONG` operators, for which a compiler of generated code starts once.  The same numbers
    give the same text everywhere.  Imports no torch.
    """
    origin = f"fxmorph seeds generate --seed {campaign_seed} --first {number}{' --long' * long}"
    return seed_text(drafted(campaign_seed, number, diet, long), origin)


def file_name(campaign_seed: int, number: int, long: bool = False) -> str:
    """What the program's file is called."""
    return f"{'long' if long else 'generated'}_{campaign_seed}_{number:05}.py"


def drafted(campaign_seed: int, number: int, diet: Mapping[str, float] | None = None, long: bool = False) -> Draft:
    """The program as it is drawn."""
    dice = Dice("long" if long else "generated", campaign_seed, number)
    draft = Draft(dice, _mood(dice))
    diet = diet or (LONG_DIET if long else DIET)
    families, weights = list(diet), list(diet.values())
    # A program stays with a few families mostly, so that they meet each other.
    weights = [w * dice.one_of((0.2, 1.0, 1.0, 3.0)) for w in weights]
    wanted, tries = (LONG, LONG_TRIES) if long else (dice.weighted(LENGTHS, LENGTH_WEIGHTS), TRIES)
    while len(draft.rows) < wanted and tries:
        tries -= 1
        rows = FAMILIES[dice.weighted(families, weights)]
        row = dice.weighted(rows, [r.weight for r in rows])
        try:
            with draft.attempt():
                row.draw(draft)
                draft.rows.append(row.name)
        except NoFit:
            continue
    return draft


def _mood(dice: Dice) -> Mood:
    dtype = dice.weighted(DTYPES, DTYPE_WEIGHTS)
    return Mood(
        dtype, whole=dice.chance(0.25), grad=dtype in FLOATS and dice.chance(0.3),
        layouts=dice.one_of((0.0, 0.3, 0.3, 0.7)), mixed=dice.one_of((0.0, 0.05, 0.15, 0.3)),
    )  # fmt: skip


def seed_text(draft: Draft, origin: str) -> str:
    """The program as a seed file."""
    body = "\n".join(f"    {line}" for line in [*draft.lines, f"return {_returned(draft)}"])
    prepared = "".join(f"    {line}\n" for line in draft.prepared)
    imports = "import torch\n" + ("import torch.nn.functional as F\n" if "F." in body else "")
    inputs = ", ".join(draft.given.values())
    if len(inputs) > 100:
        inputs = "\n        " + ",\n        ".join(draft.given.values()) + ",\n    "
    return (
        f"{imports}\nORIGIN = {origin!r}\n\n\ndef make_inputs():\n{prepared}    return [{inputs}]\n\n\n"
        f"def fn({', '.join(draft.given)}):\n{body}\n"
    )


def _returned(draft: Draft) -> str:
    """What nothing read since it was made or written; and now and then what shares memory with that, or an input."""
    dice = draft.dice
    long = len(draft.rows) > LENGTHS[-1]
    made = [v for v in draft.values if v.name not in draft.given]
    unread = [v for v in made if v.name not in draft.read][-(LONG_RETURNED if long else MOST_RETURNED) :]
    unread = unread or draft.values[-1:]
    if long:  # of its many results the values count: layouts and aliases, which others show, are the same of all
        return ", ".join(f"{name}.flatten() + {place}" for place, name in enumerate(_unlike(unread), 1)) + ","
    if dice.chance(0.3):
        unread += _sharing(dice, draft.values, unread)
    names = _unlike(unread)
    if dice.chance(0.06):
        names.append(dice.one_of(names))
    if dice.chance(0.3):
        names = dice.shuffled(names)
    return ", ".join(names) + ("," if len(names) == 1 and dice.chance(0.2) else "")


def _unlike(values: list[Value]) -> list[str]:
    """Names of the values without those that are another one anew: compiled code gives one object for both."""
    seen: dict[tuple[int, str, Layout], str] = {}
    for value in values:
        seen.setdefault((id(value.storage), value.dtype, value.layout), value.name)
    return list(seen.values())


def _sharing(dice: Dice, values: list[Value], returned: list[Value]) -> list[Value]:
    """A value more, which lies in the memory of one that is returned or is an input."""
    others = [v for v in values if v not in returned]
    kin = [v for v in others if any(v.storage is r.storage for r in returned)]
    pool = kin or [v for v in others if v.storage.given]
    return [dice.one_of(pool)] if pool else []
