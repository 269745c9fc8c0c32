"""``issue.md`` of a finding, in the form of PyTorch's ``pt2-bug-report.yml``.

What a maintainer needs to see the bug stands first; the long script, the environment and what the tool did are folded.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import dropwhile
from typing import Any

from fxmorph.core.exhibit import Element
from fxmorph.core.finding_parts import NOBODY, Draft
from fxmorph.core.units import Stage
from fxmorph.model import LAYOUT_KINDS, Finding, Kind, differs
from fxmorph.triage.folder.by_hand import commands
from fxmorph.triage.folder.environment import COMMAND, anonymous
from fxmorph.triage.folder.graph_change import graph_change
from fxmorph.triage.folder.graph_files import exhibit_of
from fxmorph.triage.folder.markdown import block, folded, table
from fxmorph.triage.folder.public_threads import known_as, related_line
from fxmorph.triage.folder.repro import DEFAULT_CHECK, repro_text
from fxmorph.triage.folder.snippet import MOST_LINES, line_count
from fxmorph.triage.folder.title import main_kind, title, what_raises
from fxmorph.triage.folder.unit_words import gone_without, labels, logs, unit_in_words, where_to_look

#: What differs, as a noun.
NOUN: Mapping[Kind, str] = {
    Kind.VALUE: "values", Kind.NONFINITE: "NaN and Inf", Kind.DTYPE: "dtypes", Kind.SHAPE: "shapes",
    Kind.STRUCTURE: "the structure of what is returned", Kind.STRIDE: "strides", Kind.OFFSET: "storage offsets",
    Kind.DEVICE: "devices", Kind.ALIAS: "which tensors share memory", Kind.IDENTITY: "which tensors are one object",
    Kind.MUTATION: "the inputs after the call", Kind.GRADIENT: "gradients", Kind.REQUIRES_GRAD: "requires_grad",
    Kind.RNG: "the random generator after the call", Kind.RAISES: "whether it raises",
    Kind.OUT_OF_BOUNDS: "memory that kernels reach", Kind.POISON: "what kernels read before it is written",
    Kind.ORDER: "what hangs on the order of iterations",
}  # fmt: skip
#: Calls that return where something is.
_INDICES = re.compile(r"arg(max|min|sort)|\b(max|min|topk|sort|median|mode|kthvalue|cummax|cummin)\(")
_BACKENDS = ("eager", "aot_eager_default_partitioner", "aot_eager", "aot_eager_decomp_partition", "inductor")
#: Elements in a table of an issue.
MOST_ROWS = 6
_NUMERIC = frozenset({Kind.VALUE, Kind.NONFINITE, Kind.MUTATION, Kind.GRADIENT, Kind.RNG, Kind.SECOND_CALL})
_LOUD = frozenset({Kind.COMPILE_ERROR, Kind.CRASH, Kind.TIMEOUT})
#: What the compiled program does, in a sentence of its own.
_SENTENCE: Mapping[Kind, str] = {
    Kind.VALUE: "returns other values than in eager",
    Kind.NONFINITE: "returns NaN or Inf where eager does not, or the reverse",
    Kind.DTYPE: "returns a tensor of another dtype than in eager",
    Kind.SHAPE: "returns a tensor of another shape than in eager",
    Kind.STRUCTURE: "returns another structure than in eager",
    Kind.STRIDE: "returns a tensor with other strides than in eager",
    Kind.OFFSET: "returns a view with another storage offset than in eager",
    Kind.DEVICE: "returns a tensor on another device than in eager",
    Kind.ALIAS: "returns tensors that share memory with other tensors than in eager",
    Kind.IDENTITY: "returns another tensor object than in eager",
    Kind.MUTATION: "leaves other values in its inputs than eager does",
    Kind.GRADIENT: "gives other gradients than in eager",
    Kind.REQUIRES_GRAD: "returns a tensor with another requires_grad than in eager",
    Kind.RNG: "leaves the random generator in another state than eager does",
    Kind.RAISES: "does not raise where eager does, or the reverse",
    Kind.SECOND_CALL: "is wrong when it is called a second time",
    Kind.OUT_OF_BOUNDS: "has a kernel that reaches beyond its memory",
    Kind.POISON: "has a kernel that reads what is not written yet",
    Kind.ORDER: "has a kernel whose results hang on the order of its iterations",
    Kind.COMPILE_ERROR: "cannot be compiled, though eager runs it",
    Kind.CRASH: "takes the process with it, though eager runs it",
    Kind.TIMEOUT: "does not come to an end, though it does in eager",
}


def issue_text(finding: Finding, versions: Mapping[str, str], backend_ladder: Iterable[tuple[str, str]]) -> str:
    """Markdown, ready to be read over and sent.

    ``versions``: name to version, in the order to print; ``backend_ladder``: pairs of backend
    and what it gave, weakest backend first.  Raises ``ValueError`` as :func:`repro_text` does.
    """
    draft = finding.draft or Draft()
    parts = [
        f"# {title(finding)}",
        "### 🐛 Describe the bug",
        _sentences(finding, versions),
        *_shown(finding, draft),
        *_ablation(finding, list(backend_ladder)),
        *_releases(finding),
        *_related(finding),
        *_by_hand(finding, draft),
        *([folded("Generated code", block(draft.kernels.splitlines(), _language(draft)))] if draft.kernels else []),
        *_values(finding),
        *_for_fuzzers(finding),
        *_errors(finding, draft),
        "### Versions",
        "" if len(finding.releases or ()) > 1 else "No other release was tried.",
        environment_part(draft, versions),
        folded("How it was found", "\n".join(_history(finding, versions))),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


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
            why = "for lack of time, or since what it was reduced to did not show it again or took its process with it"
            return f"not reduced, {why}; `fxmorph reduce {finding.id}` tries"
        return f"not reduced to the end for lack of time; `fxmorph reduce {finding.id}` goes on"
    return "not reduced: no single graph shows it, it needs the callable" if reduced.nodes == 0 else ""


# -- what it shows ---------------------------------------------------------------


def _sentences(finding: Finding, versions: Mapping[str, str]) -> str:
    kind = main_kind(finding)
    under = f" (torch {versions['torch']})" if "torch" in versions else ""
    what = what_raises(kind, exhibit_of(finding).raised) if kind is Kind.RAISES else ""
    said = f"Under `torch.compile`{under} this program {what or _SENTENCE[kind]}"
    silently = "" if _is_loud(finding) else ", without a warning"
    others = [NOUN[k] for k in finding.kinds if k is not kind and k in NOUN]
    also = f"What differs too: {', '.join(others)}." if others else ""
    contrast = (finding.draft or Draft()).contrast
    return " ".join(filter(None, [f"{said}{silently}.", also, _not_rounding(finding, kind), contrast]))


def _is_loud(finding: Finding) -> bool:
    """Whether who runs it cannot but notice: it does not where eager alone raises."""
    if set(finding.kinds) & _LOUD:
        return True
    return main_kind(finding) is Kind.RAISES and bool(exhibit_of(finding).raised[1])


def _not_rounding(finding: Finding, shown: Kind) -> str:
    """Why the numbers are no matter of rounding, where numbers are shown."""
    if shown not in _NUMERIC - {Kind.GRADIENT}:  # scripts have the gradients of another loss than was judged
        return ""
    check: Mapping[str, Any] = finding.repro.check or DEFAULT_CHECK
    if check.get("exact"):
        return "No rounding is involved: on these inputs every order of evaluation gives the same numbers."
    for slot in exhibit_of(finding).slots:
        if slot.worst and slot.worst[0].eager_error not in ("", "0"):  # whole numbers are exact, and need no words
            off = f"eager is off by {slot.worst[0].eager_error}, compiled by {slot.worst[0].error}"
            return f"Against an fp64 run of the same program {off}."
    return ""


def _shown(finding: Finding, draft: Draft) -> Iterator[str]:
    lines = repro_text(finding).splitlines()
    about = "A script that needs only torch and exits with 1 while the difference is there, with 0 once it is gone"
    if not draft.snippet:
        yield f"{about}:"
        yield block(dropwhile(lambda line: line.startswith("#"), lines), "python")  # its head says what we call it
        return
    yield block(draft.snippet.splitlines(), "python")
    yield block(draft.printed.splitlines())
    if line_count(draft.snippet) > MOST_LINES:
        yield "No shorter script was seen to show it."
    yield folded(about, block(lines, "python"))


def _values(finding: Finding) -> Iterator[str]:
    """Tables of what eager (expected) and the compiled program (actual) give, with the fp64 reference."""
    shown, parts = exhibit_of(finding), list[str]()
    check: Mapping[str, Any] = finding.repro.check or DEFAULT_CHECK
    if shown.relations:
        parts.append(table(("", "expected (eager)", "actual (compiled)"), shown.relations))
    for slot in shown.slots:
        if slot.eager != slot.compiled:  # dtype, shape and strides
            parts.append(table(("", "expected (eager)", "actual (compiled)"), [(slot.name, slot.eager, slot.compiled)]))
        if slot.worst and any(_beyond(e, check) for e in slot.worst):
            parts.append(
                f"`{slot.name}` ({slot.eager}): {slot.wrong} of {slot.numel} elements differ, the worst of them:"
            )
            rows = [
                (str(list(e.at)), e.eager, e.compiled, e.reference or "-", e.error, e.eager_error or "-")
                for e in slot.worst[:MOST_ROWS]
            ]
            parts.append(
                table(("index", "expected (eager)", "actual (compiled)", "fp64", "error", "eager's error"), rows)
            )
    if parts:
        weights = "; gradients here are those of a loss with other, random weights"
        loss = weights if Kind.GRADIENT in finding.kinds else ""
        yield folded(f"Values of that program, side by side{loss}", "\n\n".join(parts))


def _beyond(element: Element, check: Mapping[str, Any]) -> bool:
    """Whether an element is off by more than the script allows: what is within is noise beside what is not."""
    if check.get("exact") or not set(check) & {"rtol", "atol"}:
        return True
    try:
        error, wanted = abs(complex(element.error)), abs(complex(element.reference or element.eager))
    except ValueError:  # no number, and then no noise
        return True
    allowed = float(check.get("atol") or 0) + float(check.get("rtol") or 0) * wanted
    return not (math.isfinite(error) and math.isfinite(wanted) and error <= allowed)


# -- where it comes from ---------------------------------------------------------


def _ablation(finding: Finding, ladder: list[tuple[str, str]]) -> Iterator[str]:
    """The first backend that differs, and what was seen under the others."""
    wrong = [name for name, said in ladder if name in _BACKENDS and differs(said)]
    earlier = bool(wrong) and wrong[0] != _BACKENDS[-1]  # then Inductor's settings say nothing
    rows = [
        (f"`{name}`", "differs" if differs(said) else said)
        for name, said in ladder
        if name in _BACKENDS or (not earlier and name.partition("=")[0].isidentifier())
    ]
    if _BACKENDS[0] in wrong:
        yield 'It shows with `backend="eager"`, in what Dynamo makes of the program.'
    elif wrong:
        yield f"The first backend that differs from eager is `{wrong[0]}`."
    if rows:
        yield table(("backend or setting", "result"), rows)
    blame = finding.blame or NOBODY
    if finding.unit == Stage.DYNAMO:  # as the backend says
        return
    if finding.unit and blame.confirmed:
        yield f"It is {gone_without(finding.unit)}."
        if change := graph_change(finding):
            yield "What that does to the graph:"
            yield block(change, "diff")
    elif finding.unit:
        yield f"It shows where {unit_in_words(finding.unit)} comes in; switching that off was not seen to help."


def _by_hand(finding: Finding, draft: Draft) -> Iterator[str]:
    """What to type to see the same, and where its logs are."""
    shell = [
        *commands(finding),
        f'TORCH_LOGS="{logs(finding)}" python repro.py',
        "TORCH_TRACE=trace python repro.py; tlparse trace/*.log",
    ]
    below = (
        "It exits with 0 with these lines below its `import torch` (and TORCHINDUCTOR_FORCE_DISABLE_CACHES=1, so that "
        "it is compiled anew):"
    )
    parts = [below, block(draft.gone_with.splitlines(), "python"), "In a shell:"] if draft.gone_with else []
    yield folded("By hand (`repro.py` is the script above)", "\n\n".join([*parts, block(shell, "bash")]))


def _releases(finding: Finding) -> Iterator[str]:
    """Which releases are affected, where others were tried than the one that it was found with."""
    if len(finding.releases or ()) > 1:
        if str(finding.lifetime):
            yield f"Affected releases: {finding.lifetime}."
        yield table(("torch", "result"), finding.releases or ())


def _related(finding: Finding) -> Iterator[str]:
    if finding.known:
        yield f"Matches a known issue: {known_as(finding)}."
    yield from related_line(finding)


def _for_fuzzers(finding: Finding) -> Iterator[str]:
    """What the template asks of reports that a fuzzer made."""
    done = [] if _INDICES.search(finding.program) else ["no indices of max or min are compared"]
    if set(finding.kinds) & _NUMERIC:
        done.append(_compared(finding))
    if finding.repro.random:
        done.append("the random state is the same on both sides")
    fitting = ["topic: fuzzer", *labels(finding)]
    if not _is_loud(finding) and not set(finding.kinds) <= LAYOUT_KINDS:
        fitting.append("module: correctness (silent)")
    said = f" ({'; '.join(done)})" if done else ""
    yield f"Found by a fuzzer{said}. Labels: {', '.join(f'`{label}`' for label in fitting)}."


def _compared(finding: Finding) -> str:
    check: Mapping[str, Any] = finding.repro.check or DEFAULT_CHECK
    if check.get("exact"):
        return "values are exact"
    rtol, atol = check.get("rtol") or 0, check.get("atol") or 0
    return f"an fp64 run is the baseline, what differs is beyond rtol={rtol:g}, atol={atol:g}"


def _errors(finding: Finding, draft: Draft) -> Iterator[str]:
    """What was raised, where something was, and by what of the compiler."""
    raised = exhibit_of(finding).raised
    if raised[0] == raised[1]:
        return
    sides = zip(("eager", "compiled"), raised, strict=True)
    yield "### Error logs"
    yield block(f"{side}: {anonymous(said) or 'no exception'}" for side, said in sides)
    if draft.traceback:
        yield folded("Traceback, compiled", block(draft.traceback.splitlines()))


def environment_part(draft: Draft, versions: Mapping[str, str]) -> str:
    """What stands under "Versions"."""
    if draft.environment:
        return folded(f"`{COMMAND}`", block(draft.environment.splitlines()))
    said = [f"{name} {version}" for name, version in versions.items() if name != "fxmorph"]
    return f"{block(said)}\n\n`{COMMAND}` says the rest; its output belongs here."


def _language(draft: Draft) -> str:
    return "cpp" if "#include" in draft.kernels else "python"


# -- how it was found ------------------------------------------------------------

_BLAMED: Mapping[str, str] = {
    "": "the compiled rewrite is wrong",
    "variant-miscompiled": "the program before the rewrite compiles correctly, so only the rewritten one is wrong",
    "seed-miscompiled": "the program before the rewrite is the one that is wrong",
    "both": "the program is wrong before and after the rewrite",
}


def _history(finding: Finding, versions: Mapping[str, str]) -> Iterator[str]:
    """What the tool did, in its own words."""
    release = f" {versions['fxmorph']}" if "fxmorph" in versions else ""
    seed = finding.seed.rpartition("/")[2]
    found = f"Finding `{finding.id}` of fxmorph{release}, {', '.join(finding.kinds)} at {finding.stage}"
    yield found + (f" (`{finding.unit}`)." if finding.unit else ".")
    if finding.recipe:
        yield (
            f"Found by rewriting `{seed}` into an equivalent program (`{finding.recipe}`); {_BLAMED[finding.triangle]}."
        )
        for p in finding.proofs:
            assuming = f", assuming {', '.join(p.proof.assumptions)}" if p.proof.assumptions else ""
            yield f"- `{p.rewrite}`: {p.proof.level} ({p.proof.method}, {p.proof.scope}{assuming})"
    else:
        yield f"Found on `{seed}` as it is."
    if not_reduced(finding):
        yield f"The program is {not_reduced(finding)}."
    blame = finding.blame or NOBODY
    yield from (f"- {anonymous(line)}" for line in (*finding.evidence, *blame.evidence))
    yield from where_to_look(finding)
