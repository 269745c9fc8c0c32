"""What a program can reach, by name: functions and methods of torch, ATen overloads, units of Inductor."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum

from fxmorph.core.units import PLURALS, UnitKind, kind_of


class FeatureKind(StrEnum):
    """What a feature is: a function or method of torch, an ATen overload, or a unit of Inductor by its kind."""

    API = "api"
    OVERLOAD = "overload"
    LOWERING = UnitKind.LOWERING
    DECOMPOSITION = UnitKind.DECOMPOSITION
    ENTRY = UnitKind.ENTRY
    PASS = UnitKind.PASS

    @property
    def plural(self) -> str:
        """What tables call them."""
        return _CALLED.get(self) or PLURALS[UnitKind(self.value)]


_CALLED = {FeatureKind.API: "torch APIs", FeatureKind.OVERLOAD: "ATen overloads"}


@dataclass(frozen=True, order=True)
class Feature:
    """One thing that programs can reach: ``torch.nn.functional.silu``, ``aten.mm.default``, ``joint.remove_noop_ops``.

    The unit of coverage of corpora, as libFuzzer uses the word.
    """

    kind: FeatureKind
    name: str


def features_of(
    apis: Iterable[str] = (), overloads: Iterable[str] = (), units: Iterable[str] = ()
) -> frozenset[Feature]:
    """The features of these names."""
    return frozenset(
        {
            *(Feature(FeatureKind.API, name) for name in apis),
            *(Feature(FeatureKind.OVERLOAD, name) for name in overloads),
            *(Feature(FeatureKind(kind_of(name)), name) for name in units),
        }
    )


@dataclass(frozen=True)
class Reach:
    """What one run of the seed with this ``hash`` reached.

    ``graphs`` is equal for seeds that are the same test (``programs/same_graphs.py``), "" where its graphs have no
    text form.  ``seconds`` of CPU: what the run, its capture and its compile took.
    """

    hash: str
    apis: tuple[str, ...]
    overloads: tuple[str, ...]
    units: tuple[str, ...]
    graphs: str
    seconds: float

    @property
    def features(self) -> frozenset[Feature]:
        return features_of(self.apis, self.overloads, self.units)


@dataclass(frozen=True)
class Coverage:
    """Of the features of one kind that there are, those that are covered; both are sorted names."""

    kind: FeatureKind
    covered: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def all(self) -> int:
        return len(self.covered) + len(self.missing)


def coverage_of(reached: Collection[Feature], every: Iterable[Feature]) -> list[Coverage]:
    """What is covered of ``every`` feature that there is, by kind; kinds that there are none of are left out."""
    by_kind: dict[FeatureKind, list[Feature]] = {kind: [] for kind in FeatureKind}
    for feature in sorted(every):
        by_kind[feature.kind].append(feature)
    return [
        Coverage(
            kind,
            tuple(feature.name for feature in there if feature in reached),
            tuple(feature.name for feature in there if feature not in reached),
        )
        for kind, there in by_kind.items()
        if there
    ]


#: Kinds of features, those first that say most of a program.
_TELLING = (
    FeatureKind.PASS, FeatureKind.ENTRY, FeatureKind.LOWERING, FeatureKind.DECOMPOSITION, FeatureKind.API,
    FeatureKind.OVERLOAD,
)  # fmt: skip


def in_words(features: Collection[Feature], most: int = 3) -> str:
    """The names of ``most`` of the features, those that say most first."""
    ordered = sorted(features, key=lambda feature: (_TELLING.index(feature.kind), feature.name))
    return ", ".join([*(feature.name for feature in ordered[:most]), *(["…"] if len(ordered) > most else [])])
