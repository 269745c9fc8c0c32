"""Graphs of a finding as files: before and after the guilty unit, and the seed's and the variant's."""

from __future__ import annotations

from fxmorph.core.exhibit import Exhibit, GraphPair
from fxmorph.model import Finding
from fxmorph.triage.folder.dataflow import Step, marked, nearby, read_steps
from fxmorph.triage.folder.drawing import draw, standalone

#: Nodes that are drawn of one graph.
MOST_NODES = 60


def exhibit_of(finding: Finding) -> Exhibit:
    """What the finding shows, empty where nothing was recorded."""
    return finding.exhibit or Exhibit()


def sides(pair: GraphPair) -> list[tuple[str, tuple[Step, ...], str]]:
    """(name, nodes, text) of the graphs that are there, nodes marked that the other side has not."""
    names = ("seed", "variant") if pair.title == "rewrites" else ("before", "after")
    before, after = read_steps(pair.before), read_steps(pair.after)
    both = zip(names, (marked(before, after), marked(after, before)), (pair.before, pair.after), strict=True)
    return [(name, steps, text) for name, steps, text in both if text]


def picture(steps: tuple[Step, ...], title: str) -> tuple[str, int]:
    """The drawing, and how many nodes far from marked ones are left out of it."""
    kept = nearby(steps, MOST_NODES)
    return draw(kept, title), len(steps) - len(kept)


def graph_files(finding: Finding) -> dict[str, str]:
    """``before.txt``, ``before.svg`` and so on, by name."""
    files = {}
    for pair in exhibit_of(finding).graphs:
        for name, steps, text in sides(pair):
            files[f"{name}.txt"] = f"{text.rstrip()}\n"
            drawn, _ = picture(steps, f"{name}: {pair.by}")
            if drawn:
                files[f"{name}.svg"] = standalone(drawn)
    return files
