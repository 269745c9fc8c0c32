"""``issue.md`` of a finding, under the headings of PyTorch's ``pt2-bug-report.yml``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fxmorph.core.exhibit import Exhibit
from fxmorph.core.finding_parts import NOBODY
from fxmorph.model import Finding, Kind, differs
from fxmorph.triage.folder.graph_files import exhibit_of
from fxmorph.triage.folder.public_threads import known_as, related_line
from fxmorph.triage.folder.repro import DEFAULT_CHECK, repro_text

#: How a title says each kind.
_SAID: Mapping[Kind, str] = {
    Kind.VALUE: "wrong values",
    Kind.NONFINITE: "NaN or Inf where eager has none, or the reverse",
    Kind.DTYPE: "wrong output dtype",
    Kind.SHAPE: "wrong output shape",
    Kind.STRUCTURE: "wrong output structure",
    Kind.STRIDE: "wrong output strides",
    Kind.OFFSET: "wrong storage offset",
    Kind.DEVICE: "wrong device",
    Kind.ALIAS: "output aliasing differs from eager",
    Kind.IDENTITY: "output is not the same object as in eager",
    Kind.MUTATION: "wrong input mutation",
    Kind.GRADIENT: "wrong gradients",
    Kind.REQUIRES_GRAD: "wrong requires_grad",
    Kind.RNG: "random numbers differ from eager under fallback_random",
    Kind.RAISES: "error parity with eager",
    Kind.SECOND_CALL: "wrong result on the second call",
    Kind.COMPILE_ERROR: "does not compile",
    Kind.CRASH: "crashes",
    Kind.TIMEOUT: "does not finish",
}
_BACKENDS = ("eager", "aot_eager", "aot_eager_decomp_partition", "inductor")
#: Elements in a table of an issue.
MOST_ROWS = 6
#: Operators that a title names.
MOST_OPERATORS = 4
_NUMERIC = frozenset({Kind.VALUE, Kind.MUTATION, Kind.GRADIENT, Kind.RNG, Kind.SECOND_CALL})
_LOUD = frozenset({Kind.RAISES, Kind.COMPILE_ERROR, Kind.CRASH, Kind.TIMEOUT})


def issue_text(finding: Finding, versions: Mapping[str, str], backend_ladder: Iterable[tuple[str, str]]) -> str:
    """Markdown, ready to be read over and sent.

    ``versions``: name to version, in the order to print; ``backend_ladder``: pairs of backend
    and what it gave, weakest backend first.  Raises ``ValueError`` as :func:`repro_text` does.
    """
    ladder = list(backend_ladder)
    return (
        "\n\n".join(
            [
                f"# {title(finding)}",
                "### 🐛 Describe the bug",
                _summary(finding, versions),
                _description(finding),
                "`repro.py` (needs torch only; exits 1 while the bug is there, 0 once it is gone):",
                f"```python\n{repro_text(finding)}```",
                *_expected_and_actual(exhibit_of(finding)),
                "First backend that goes wrong: " + _first_wrong(ladder),
                _table(("backend", "result"), ladder),
                *_releases(finding),
                *related_line(finding),
                f"**Why this is not rounding.** {_not_rounding(finding)}",
                "### Error logs",
                _block(finding.evidence or (finding.reason,)),
                "### Versions",
                "Put the output of `python -m torch.utils.collect_env` here. fxmorph knows of:",
                _block([f"{name} {version}" for name, version in versions.items()]),
            ]
        )
        + "\n"
    )


def _releases(finding: Finding) -> list[str]:
    """What other releases show, where they were tried."""
    rows = finding.releases
    return ["`repro.py` under other releases:", _table(("torch", "result"), rows)] if rows else []


def _first_wrong(ladder: Iterable[tuple[str, str]]) -> str:
    """The weakest backend of the ladder that differs; its other rungs are settings."""
    wrong = [name for name, said in ladder if name in _BACKENDS and differs(said)]
    return f"`{wrong[0]}`" if wrong else "none was seen to"


def title(finding: Finding) -> str:
    """One line: where and what, of which operators, by which unit."""
    operators = list(dict.fromkeys(finding.operations))
    more = ", …" if len(operators) > MOST_OPERATORS else ""
    of = f": {', '.join(operators[:MOST_OPERATORS])}{more}" if operators else ""
    return f"[{finding.stage or 'inductor'}] {what(finding)}{of}" + (f" ({finding.unit})" if finding.unit else "")


def what(finding: Finding) -> str:
    """What is wrong, in words."""
    return ", ".join(_SAID[k] for k in finding.kinds)


def not_reduced(finding: Finding) -> str:
    """Why the program is not as small as it could be, or ""."""
    reduced = finding.reduced
    if not finding.confirmed:
        return f"seen, not investigated to the end; `fxmorph reduce {finding.id}` does"
    if not finding.program:
        return ""
    if finding.config.get("sizes"):
        return "not reduced: it shows at another size than the first, and reducing changes sizes"
    if reduced.finished is False:
        if not reduced.tests:
            return "not reduced: the process that was to reduce it died or did not end"
        return f"not reduced to the end for lack of time; `fxmorph reduce {finding.id}` goes on"
    return "not reduced: no single graph shows it, it needs the callable" if reduced.nodes == 0 else ""


def _summary(finding: Finding, versions: Mapping[str, str]) -> str:
    """One sentence."""
    release = f" of torch {versions['torch']}" if "torch" in versions else ""
    loud = set(finding.kinds) & _LOUD
    silently = "" if loud else ", without a warning"
    return f"`torch.compile`{release} does not do what eager does{silently}: {what(finding)}."


def _expected_and_actual(shown: Exhibit) -> Iterator[str]:
    """Tables of what eager (expected) and the compiled program (actual) give, with the fp64 reference."""
    if shown.raised[0] != shown.raised[1]:
        yield f"Expected (eager): {shown.raised[0] or 'returns'}\n\nActual (compiled): {shown.raised[1] or 'returns'}"
    if shown.relations:
        yield _table(("", "expected (eager)", "actual (compiled)"), shown.relations)
    for slot in shown.slots:
        if slot.eager != slot.compiled:
            yield _table(("", "expected (eager)", "actual (compiled)"), [(slot.name, slot.eager, slot.compiled)])
        if slot.worst:
            yield f"`{slot.name}` ({slot.eager}): {slot.wrong} of {slot.numel} elements differ, the worst of them:"
            rows = [
                (str(list(e.at)), e.eager, e.compiled, e.reference or "-", e.error, e.eager_error or "-")
                for e in slot.worst[:MOST_ROWS]
            ]
            yield _table(("index", "expected (eager)", "actual (compiled)", "fp64", "error", "eager's error"), rows)


def _description(finding: Finding) -> str:
    lines = [
        f"{finding.reason or ', '.join(finding.kinds)}.",
        f"First bad stage: `{finding.stage}`" + (f"; responsible: `{finding.unit}`." if finding.unit else "."),
        *_blame(finding),
    ]
    if finding.recipe:
        lines.append(
            f"Found by rewriting `{finding.seed}` into an equivalent program (`{finding.recipe}`); "
            f"{_BLAMED[finding.triangle]}."
        )
        for p in finding.proofs:
            assuming = f", assuming {', '.join(p.proof.assumptions)}" if p.proof.assumptions else ""
            lines.append(f"- `{p.rewrite}`: {p.proof.level} ({p.proof.method}, {p.proof.scope}{assuming})")
    else:
        lines.append(f"Found on `{finding.seed}` as it is.")
    if not_reduced(finding):
        lines.append(f"The program is {not_reduced(finding)}.")
    if finding.known:
        lines.append(f"**Matches a known issue: {known_as(finding)}.**")
    return "\n".join(lines)


def _blame(finding: Finding) -> list[str]:
    """What speaks for the responsible unit, and how to see it by hand."""
    blame = finding.blame or NOBODY
    lines = [f"- {line}" for line in blame.evidence]
    if finding.unit and not blame.confirmed:
        lines.append("- unconfirmed: switching it off was not seen to help")
    if blame.redo:
        lines += ["To redo by hand:", _block(blame.redo)]
    return lines


_BLAMED: Mapping[str, str] = {
    "": "the compiled rewrite is wrong",
    "variant-miscompiled": "the program before the rewrite compiles correctly, so only the rewritten one is wrong",
    "seed-miscompiled": "the program before the rewrite is the one that is wrong",
    "both": "the program is wrong before and after the rewrite",
}


def _not_rounding(finding: Finding) -> str:
    kinds = set(finding.kinds)
    if not kinds & _NUMERIC:
        return f"No number is compared: {', '.join(_SAID[k] for k in finding.kinds)} is compared exactly."
    check: Mapping[str, Any] = finding.repro.check or DEFAULT_CHECK
    if check.get("exact"):
        return (
            "The inputs are such that no order of evaluation rounds (or the operations only move values), "
            "so eager, fp64 and compiled must agree exactly; the tolerance of the script is zero."
        )
    return (
        f"The difference is beyond rtol={check.get('rtol', 0):g}, atol={check.get('atol', 0):g}, "
        "while eager agrees with an fp64 reference of the same graph."
    )


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [f"| {' | '.join(heads)} |", f"| {' | '.join('---' for _ in heads)} |"]
    # A bar inside a cell would end it.
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def _block(lines: Iterable[str]) -> str:
    return "```\n" + "\n".join(lines) + "\n```"
