"""A data flow as inline SVG: layers from top to bottom, edges around the boxes.

Layers are longest paths; long edges get a bend in each layer that they cross; the order in a layer is
that of the neighbours' means (Sugiyama, Tagawa, Toda, 1981).  Colours come from the page's CSS.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise

from fxmorph.triage.folder.dataflow import Step

#: Sizes in pixels: of a character of a label and of a note, of boxes and of the space between them.
CHARACTER, SMALL, BOX, NOTE_LINE, GAP, LAYER = 7.3, 5.6, 24, 12, 14, 26
#: Sweeps over the layers, down and up.
SWEEPS = 6
#: Longer labels and notes are cut.
LONGEST, LONGEST_NOTE = 26, 36


@dataclass
class _Box:
    """A node, or a bend of an edge (no step)."""

    step: Step | None
    layer: int
    width: float
    x: float = 0.0
    above: list[_Box] = field(default_factory=list)
    below: list[_Box] = field(default_factory=list)


def draw(steps: Sequence[Step], title: str) -> str:
    """``<svg>`` of the steps, "" if there are none; ``title`` is for screen readers."""
    if not steps:
        return ""
    boxes, chains = _boxes(steps)
    layers = _ordered(boxes)
    _place(layers)
    tall = [NOTE_LINE if any(b.step and b.step.note for b in layer) else 0 for layer in layers]
    tops = [sum(BOX + LAYER + t for t in tall[:i]) + 2 for i in range(len(layers))]
    left = min(b.x - b.width / 2 for layer in layers for b in layer)
    width = max(b.x + b.width / 2 for layer in layers for b in layer) - left + 4
    height = tops[-1] + BOX + tall[-1] + 2
    for layer in layers:
        for box in layer:
            box.x += 2 - left
    body = [_edge(chain, tops, tall) for chain in chains]
    body += [_node(b, tops[b.layer], tall[b.layer]) for layer in layers for b in layer if b.step is not None]
    return (
        f'<svg class="flow" role="img" width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} '
        f'{height:.0f}" xmlns="http://www.w3.org/2000/svg"><title>{escape(title)}</title>{"".join(body)}</svg>'
    )


def standalone(svg: str) -> str:
    """The drawing as a file of its own, on a light ground."""
    style = (
        "<style>.flow text{font:12px ui-monospace,monospace;text-anchor:middle}.note{font-size:9px!important;fill:#667}"
        ".flow rect{fill:#f6f7f9;stroke:#9aa3af}.input rect,.output rect{fill:#fff;stroke-dasharray:3 2}"
        ".marked rect{fill:#fde8e6;stroke:#b3261e}.flow path{fill:none;stroke:#9aa3af}</style>"
    )
    head, arrow, rest = svg.partition(">")
    return f"{head}{arrow}{style}{rest}\n"


def _boxes(steps: Sequence[Step]) -> tuple[list[_Box], list[list[_Box]]]:
    """Boxes of nodes and bends, and the chain of boxes of each edge."""
    made: dict[str, _Box] = {}
    for step in steps:
        layer = max((made[u].layer + 1 for u in step.uses if u in made), default=0)
        wide = max(len(_label(step)) * CHARACTER, len(_note(step)) * SMALL) + 14
        made[step.name] = _Box(step, layer, wide)
    # Inputs stand right above what first takes them.
    for step in steps:
        users = [made[s.name].layer for s in steps if step.name in s.uses]
        if step.role == "input" and users:
            made[step.name].layer = max(0, min(users) - 1)
    boxes, chains = list(made.values()), list[list[_Box]]()
    for step in steps:
        for used in step.uses:
            if used not in made:
                continue
            chain = [made[used]]
            for layer in range(made[used].layer + 1, made[step.name].layer):
                chain.append(_Box(None, layer, 8))
            chain.append(made[step.name])
            for upper, lower in pairwise(chain):
                upper.below.append(lower)
                lower.above.append(upper)
            boxes += chain[1:-1]
            chains.append(chain)
    return boxes, chains


def _ordered(boxes: Sequence[_Box]) -> list[list[_Box]]:
    layers: list[list[_Box]] = [[] for _ in range(max(b.layer for b in boxes) + 1)]
    for box in boxes:
        layers[box.layer].append(box)
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for layer in layers if down else layers[::-1]:
            rank = {id(b): i for each in layers for i, b in enumerate(each)}

            def mean(box: _Box, down: bool = down, rank: dict[int, int] = rank) -> float:
                near = box.above if down else box.below
                return sum(rank[id(b)] for b in near) / len(near) if near else float(rank[id(box)])

            layer.sort(key=mean)
    return layers


def _place(layers: list[list[_Box]]) -> None:
    """Each box near the mean of its neighbours, without overlap, in the order of its layer."""
    for layer in layers:
        x = 0.0
        for box in layer:
            box.x, x = x + box.width / 2, x + box.width + GAP
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for layer in layers if down else layers[::-1]:
            wanted = []
            for box in layer:
                near = (box.above if down else box.below) or (box.below if down else box.above)
                wanted.append(sum(b.x for b in near) / len(near) if near else box.x)
            _spread(layer, wanted)


def _spread(layer: list[_Box], wanted: list[float]) -> None:
    """Positions nearest to the wanted ones (least squares) that keep the order: neighbours in the way form blocks."""
    blocks: list[list[float]] = []  # sum of wanted lefts, count, start index
    before = 0.0
    offsets = []
    for box, x in zip(layer, wanted, strict=True):
        offsets.append(before + box.width / 2)
        blocks.append([x - offsets[-1], 1.0, len(offsets) - 1])
        before += box.width + GAP
        while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] > blocks[-1][0] / blocks[-1][1]:
            last = blocks.pop()
            blocks[-1][0] += last[0]
            blocks[-1][1] += last[1]
    for number, (total, count, start) in enumerate(blocks):
        stop = int(blocks[number + 1][2]) if number + 1 < len(blocks) else len(layer)
        for i in range(int(start), stop):
            layer[i].x = total / count + offsets[i]


def _edge(chain: Sequence[_Box], tops: Sequence[float], tall: Sequence[float]) -> str:
    start = chain[0]
    y = tops[start.layer] + BOX + tall[start.layer]
    parts = [f"M{start.x:.0f} {y:.0f}"]
    x = start.x
    for box in chain[1:]:
        top = tops[box.layer]
        half = (top - y) / 2
        parts.append(f"C{x:.0f} {y + half:.0f} {box.x:.0f} {top - half:.0f} {box.x:.0f} {top:.0f}")
        x, y = box.x, top
        if box.step is None:
            y = top + BOX + tall[box.layer]
            parts.append(f"V{y:.0f}")
    return f'<path d="{"".join(parts)}"/>'


def _node(box: _Box, top: float, tall: int) -> str:
    step = box.step
    assert step is not None
    note = _note(step)
    words = " ".join(filter(None, (step.role, "marked" if step.marked else "")))
    height = BOX + tall
    label = f'<text x="{box.x:.0f}" y="{top + (16 if note or not tall else 22):.0f}">{escape(_label(step))}</text>'
    if note:
        label += f'<text class="note" x="{box.x:.0f}" y="{top + 29:.0f}">{escape(note)}</text>'
    tip = escape(f"{step.name} = {step.text}" if step.role == "call" else f"{step.role} {step.text}")
    return (
        f'<g class="{words}"><title>{tip[:400]}</title><rect x="{box.x - box.width / 2:.0f}" y="{top:.0f}" '
        f'width="{box.width:.0f}" height="{height}" rx="3"/>{label}</g>'
    )


def _label(step: Step) -> str:
    """The operator with its fixed arguments, of which a long list is cut and a long name is not."""
    if not step.arguments:
        return _cut(step.label, LONGEST)
    room = max(LONGEST - len(step.label), LONGEST // 2)
    return f"{_cut(step.label, LONGEST)}({_cut(step.arguments, room)})"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _note(step: Step) -> str:
    return _cut(step.note, LONGEST_NOTE)
