"""Since which release of torch a finding shows, and until which."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

#: What a repro, or a run that judged the same program, shows under a release.
STILL_THERE, GONE, BREAKS = "still there", "gone", "breaks"


@dataclass(frozen=True)
class Lifetime:
    """Releases of torch, "" where none is known: the first and the last one tried that show it, and the first one after
    those that does not.
    """

    first_seen: str = ""
    last_seen: str = ""
    fixed_in: str = ""

    def __str__(self) -> str:
        said = [("first seen", self.first_seen), ("last seen", self.last_seen), ("fixed in", self.fixed_in)]
        return ", ".join(f"{what} torch {release}" for what, release in said if release)


def lifetime(shown: Iterable[tuple[str, str]]) -> Lifetime:
    """Of (release, what it shows), in any order."""
    rows = sorted(shown, key=lambda row: release_key(row[0]))
    seen = [release for release, word in rows if word == STILL_THERE]
    if not seen:
        return Lifetime()
    last = release_key(seen[-1])
    gone = [release for release, word in rows if word == GONE and release_key(release) > last]
    return Lifetime(seen[0], seen[-1], gone[0] if gone else "")


def first_change(shown: Sequence[str | None]) -> tuple[int, int] | None:
    """The first two places in an order of releases that show different things, with nothing between them that tells.

    ``shown`` has None where a release was not tried; one that breaks tells nothing.  None where nothing changes.
    """
    telling = [place for place, word in enumerate(shown) if word in (STILL_THERE, GONE)]
    return next(((a, b) for a, b in pairwise(telling) if shown[a] != shown[b]), None)


def change_in_words(shown: Sequence[tuple[str, str | None]]) -> str:
    """Where what releases, oldest first, show changes first."""
    change = first_change([word for _, word in shown])
    if change is None:
        tried = [(release, word) for release, word in shown if word in (STILL_THERE, GONE)]
        if not tried:
            return "the repro runs under none of them"
        return f"{tried[0][1]} under all that were tried: torch {', '.join(release for release, _ in tried)}"
    (before, word), (after, _) = (shown[place] for place in change)
    broken = [release for release, said in shown[change[0] + 1 : change[1]] if said == BREAKS]
    between = f" (the repro breaks under torch {', '.join(broken)})" if broken else ""
    names = ("last good", "first bad") if word == GONE else ("last bad", "first good")
    return f"{names[0]} torch {before}, {names[1]} torch {after}{between}"


def next_to_try(shown: Sequence[str | None]) -> int | None:
    """The release that bisection tries next: both ends, then the middle around the change; None at its end."""
    untried = [place for place, word in enumerate(shown) if word is None]
    # Where an end breaks its neighbour stands in for it.
    working = [place for place, word in enumerate(shown) if word != BREAKS]
    for end in (*working[:1], *working[-1:]):
        if shown[end] is None:
            return end
    change = first_change(shown)
    between = [place for place in untried if change is not None and change[0] < place < change[1]]
    return between[len(between) // 2] if between else None


def telling(shown: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Rows that tell as much as all, oldest release first: without nightlies between two that show the same."""
    rows = sorted(shown, key=lambda row: release_key(row[0]))
    words = [None, *(word for _, word in rows), None]
    return tuple(
        row
        for row, before, after in zip(rows, words, words[2:], strict=False)
        if {before, after} != {row[1]} or not _is_nightly(row[0])
    )


def _is_nightly(release: str) -> bool:
    return ".dev" in release


def release_key(release: str) -> tuple[tuple[int, ...], bool, tuple[int, ...]]:
    """Sorts releases by age: nightlies before the release that they lead to, builds for other devices as equals."""
    public = release.partition("+")[0]
    numbers, further = re.match(r"[\d.]*", public), re.findall(r"\d+", re.sub(r"^[\d.]*", "", public))
    found = tuple(int(part) for part in re.findall(r"\d+", numbers[0])) if numbers else ()
    return found, not further, tuple(map(int, further))
