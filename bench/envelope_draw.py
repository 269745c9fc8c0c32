"""Plots and tables of the envelope study, from what bench/envelope.py measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

#: Mid-tones on a transparent ground: readable on a white page and on a dark one.
INK = "#7a828e"
COLOURS = {"fxmorph": "#2f81f7", "same": "#d9730d", "assert_close": "#2da44e"}
LABELS = {"fxmorph": "fxmorph", "same": "torch._dynamo.utils.same", "assert_close": "torch.testing.assert_close"}
STYLE: Any = {
    "svg.hashsalt": "fxmorph",  # the same numbers give the same file
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "axes.facecolor": "none",
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": INK,
    "grid.alpha": 0.25,
    "legend.frameon": False,
}


def draw(data: dict[str, Any], folder: Path) -> None:
    """Write ``inside.svg``, ``worst.svg``, ``detection.svg`` and ``anywhere.svg``."""
    with plt.rc_context(STYLE):
        _each(data, folder / "inside.svg", _inside, "true error / allowed error", "share up to here", data["bins"])
        _each(data, folder / "worst.svg", _worst, "allowed (units of roundoff)", "true error (units of roundoff)", data)
        _each(
            data, folder / "detection.svg", _caught, "relative size of the injected error", "share caught", "injected"
        )
        _each(data, folder / "anywhere.svg", _caught, "relative size of the injected error", "share caught", "anywhere")


def _each(data: dict[str, Any], file: Path, plot: Any, across: str, up: str, more: Any) -> None:
    figure: Figure
    figure, axes = plt.subplots(2, 2, figsize=(9, 6), layout="constrained")
    for axis, (dtype, summary) in zip(axes.flat, data["dtypes"].items(), strict=True):
        axis.set_title(dtype, color=INK, fontsize=10)
        axis.grid(True)
        plot(axis, dtype, summary, more)
    figure.supxlabel(across, fontsize=9)
    figure.supylabel(up, fontsize=9)
    handles, names = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=len(names))
    figure.savefig(file, transparent=True, metadata={"Date": None})
    plt.close(figure)
    # matplotlib ends lines with blanks.
    file.write_text("\n".join(line.rstrip() for line in file.read_text().splitlines()) + "\n")


def _inside(axis: Axes, dtype: str, summary: dict[str, Any], bins: list[float]) -> None:
    first, _, step = bins
    edges = [2.0 ** (first + step * k) for k in range(len(summary["cumulative"]["elements"]))]
    axis.set_xscale("log", base=2)
    axis.plot(edges, summary["cumulative"]["elements"], color=COLOURS["fxmorph"], label="elements")
    axis.plot(edges, summary["cumulative"]["graphs"], color=COLOURS["same"], label="graphs, by their worst element")
    axis.axvline(1, color="#d1242f", linestyle="--", label="edge of the envelope")
    axis.set_ylim(0, 1.02)
    axis.set_xlim(2.0**-24, 4)


def _worst(axis: Axes, dtype: str, summary: dict[str, Any], data: dict[str, Any]) -> None:
    found = [r["worst"][0] for r in data["graphs"][dtype] if "elements" in r and "worst" in r]
    axis.set_xscale("log")
    axis.set_yscale("log")
    points = [(w["allowed"], max(w["error"], 0.01)) for w in found if 0 < w["allowed"] < float("inf")]
    axis.plot(
        *zip(*points, strict=True) if points else ([], []),
        linestyle="none", marker="o", markersize=3, alpha=0.6, color=COLOURS["fxmorph"],
        label="worst element of a graph (0.01: no error)",
    )  # fmt: skip
    ends = [min(x for x, _ in points), max(x for x, _ in points)] if points else [1, 10]
    axis.plot(ends, ends, color="#d1242f", linestyle="--", label="edge of the envelope")


def _caught(axis: Axes, dtype: str, summary: dict[str, Any], key: str) -> None:
    powers = sorted(map(int, summary[key]))
    axis.set_xscale("log", base=2)
    axis.set_ylim(-0.02, 1.02)
    for check, colour in COLOURS.items():
        shares = [summary[key][str(p)].get(check, 0) / summary[key][str(p)]["tried"] for p in powers]
        axis.plot([2.0**p for p in powers], shares, color=colour, label=LABELS[check], marker=".", markersize=4)


# -- tables ----------------------------------------------------------------------


def tables(data: dict[str, Any]) -> str:
    """The tables of docs/envelope.md, as Markdown."""
    dtypes: dict[str, dict[str, Any]] = data["dtypes"]
    total = sum(s["graphs"] for s in dtypes.values())
    policy = ", ".join(f"{k} {v:g}" for k, v in data["policy"].items())
    head = f"torch {data['torch']}, seed {data['seed']}; {policy}; {total} graphs x dtypes clean or expected"
    quantiles = ["50 %", "90 %", "99 %", "99.9 %", "largest"]
    parts = [head, "", "Graphs", "", _graphs(dtypes)]
    for title, key in (
        ("Error / allowed, all well-conditioned elements", "ratio"),
        ("Error / allowed, elements whose bits are not eager's", "ratio_where_bits_differ"),
        ("Error / allowed, elements that are not well-conditioned", "ratio_ill_conditioned"),
        ("Error / allowed, the worst element of each graph", "graph_maximum"),
        ("Allowed error, units of roundoff of the value", "width"),
    ):
        rows = [[d, *(f"{x:.3g}" for x in s[key])] for d, s in dtypes.items()]
        parts += ["", title, "", _table(["dtype", *quantiles], rows)]
    parts += ["", "Smallest injected relative error caught, 50 % / 99 %", "", _smallest(dtypes, "caught")]
    plain = ", ".join(f"{s['plain_graphs']} {d}" for d, s in dtypes.items())
    parts += ["", f"The same, graphs without kernels of several roundings ({plain})", ""]
    parts += [_smallest(dtypes, "caught_plain")]
    parts += ["", "Caught of errors in any element", "", _anywhere(dtypes)]
    parts += ["", "Objections to compiled results that are right: slots (graphs)", "", _false(dtypes)]
    parts += ["", "Statuses", ""]
    parts += [f"{d}: " + ", ".join(f"{n} {k}" for k, n in sorted(s["statuses"].items())) for d, s in dtypes.items()]
    return "\n".join(parts)


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _graphs(dtypes: dict[str, dict[str, Any]]) -> str:
    rows = [
        [d, str(s["graphs"]), str(s["exact"]), str(s["elements"]), f"{100 * s['unjudged']:.1f} %",
         f"{100 * s['differ']:.1f} %", str(s["disagree"])]
        for d, s in dtypes.items()
    ]  # fmt: skip
    names = [
        "dtype",
        "graphs",
        "of them exact",
        "elements",
        "not well-conditioned",
        "bits not eager's",
        "disagreements",
    ]
    return _table(names, rows)


def _smallest(dtypes: dict[str, dict[str, Any]], key: str) -> str:
    def show(power: int | None) -> str:
        return "never" if power is None else f"2^{power}"

    rows = [[d, *(f"{show(s[key][c][0])} / {show(s[key][c][1])}" for c in COLOURS)] for d, s in dtypes.items()]
    return _table(["dtype", *LABELS.values()], rows)


def _anywhere(dtypes: dict[str, dict[str, Any]]) -> str:
    rows = []
    for d, s in dtypes.items():
        for check in COLOURS:
            found = [s["anywhere"].get(str(p)) for p in (-4, -2, 0, 2, 4)]
            rows.append(
                [d, LABELS[check], *(f"{100 * c.get(check, 0) / c['tried']:.0f} %" if c else "-" for c in found)]
            )
    return _table(["dtype", "check", "2^-4", "2^-2", "1", "4", "16"], rows)


def _false(dtypes: dict[str, dict[str, Any]]) -> str:
    rows = [
        [d, str(s["slots"]), *(f"{s['false'][c]} ({s['false_graphs'][c]})" for c in COLOURS)] for d, s in dtypes.items()
    ]
    return _table(["dtype", "slots", *LABELS.values()], rows)


def operator_table(single: dict[str, list[dict[str, Any]]]) -> str:
    """Per operator and dtype ``true error / allowed``, in units of roundoff of the result's RMS; slackest first."""
    cells: dict[tuple[str, str], dict[str, tuple[float, float]]] = {}
    for dtype, rows in single.items():
        for row in rows:
            here = cells.setdefault((row["operator"], row["slot"]), {})
            error, allowed = here.get(dtype, (0.0, 0.0))
            here[dtype] = max(error, row["compiled"]), max(allowed, row["allowed"])

    def slack(found: dict[str, tuple[float, float]]) -> float:
        error, allowed = found.get("float32", (1.0, 0.0))
        return allowed / max(error, 0.5)

    def show(found: tuple[float, float] | None) -> str:
        return "-" if found is None else f"{found[0]:.2g} / {found[1]:.2g}"

    order = sorted(cells, key=lambda key: -slack(cells[key]))
    rows_out = [[op, slot, *(show(cells[op, slot].get(d)) for d in single)] for op, slot in order]
    return _table(["operator", "of", *single], rows_out)
