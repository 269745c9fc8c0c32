"""Runs snippets of a finding until the shortest is found: ``python -m fxmorph.triage.folder.snippet_trial FOLDER OUT``.

In a process of its own, which settings of snippets may change.  ``OUT`` gets what was found as JSON.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from fxmorph.core.finding_parts import Draft
from fxmorph.core.records import from_json, to_json
from fxmorph.model import Finding, Kind
from fxmorph.torchapi.compiling import quiet, reset
from fxmorph.triage.folder.program_text import readable
from fxmorph.triage.folder.repro import DEFAULT_CHECK
from fxmorph.triage.folder.short_inputs import short_expressions
from fxmorph.triage.folder.snippet import COMPILED, EAGER, MOST_LINES, Snippet, forms, line_count, sketches

#: Wall seconds for all trials of one finding; what was found by then counts.
SECONDS = 60.0
#: Lines of a tensor that is printed whole, and elements of one that is printed with all their digits.
MOST_PRINTED, MOST_DIGITS = 4, 6
#: A call that makes a tensor of a size that has a zero.
_NO_SIZE = re.compile(r"torch\.(ones|zeros|full|empty|rand|randn)\(\((\d+, )*0(, \d+)*,?\)")
#: Wall seconds for trials of other inputs.
CONTRAST_SECONDS = 30.0
#: Types that inputs of a kind may have instead: values that fit, and no coarser rounding.
_OTHER_DTYPES = (
    (torch.float32, torch.float64),
    (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64),
)
#: By how many characters a plainer expression may be longer.
MOST_LONGER = 8
_OF_AUTOGRAD = frozenset({Kind.GRADIENT, Kind.REQUIRES_GRAD})


@dataclass(frozen=True)
class Printed:
    """One line of a side: what was printed, as values and as text; ``raised``: an exception is among them."""

    values: tuple[Any, ...]
    text: str
    raised: bool


#: What each side printed.
Sides = Mapping[str, list[Printed]]


class Trials:
    """Runs snippets of one finding, for ``seconds`` at most."""

    def __init__(self, check: Mapping[str, Any], seconds: float) -> None:
        exact = bool(check.get("exact"))
        self._rtol, self._atol = (0.0 if exact else float(check.get(k) or 0) for k in ("rtol", "atol"))
        self._until = time.monotonic() + seconds

    @property
    def over(self) -> bool:
        return time.monotonic() > self._until

    def differing(self, snippet: Snippet) -> tuple[Printed, Printed] | None:
        """The first lines of the two sides that differ, None where none do."""
        sides = run_text(snippet.text())
        pairs = zip(sides[EAGER], sides[COMPILED], strict=False)
        return next((pair for pair in pairs if not self._alike(*pair)), None)

    def agree(self, snippet: Snippet) -> bool:
        """Whether both sides print, without an exception, and print the same; not where there is no time."""
        if self.over:
            return False
        sides = run_text(snippet.text())
        mine, theirs = sides[EAGER], sides[COMPILED]
        whole = len(mine) == len(theirs) > 0 and not any(line.raised for line in (*mine, *theirs))
        return whole and all(self._alike(*pair) for pair in zip(mine, theirs, strict=True))

    def steady(self, snippet: Snippet) -> bool:
        """Whether both sides print the same where neither is compiled."""
        with mock.patch.object(torch, "compile", lambda function, **_: function):
            return self.differing(snippet) is None

    def _alike(self, mine: Printed, theirs: Printed) -> bool:
        if mine.raised or theirs.raised:  # that both raise is what matters, not what they say
            return mine.raised == theirs.raised
        values = zip(mine.values, theirs.values, strict=False)
        return len(mine.values) == len(theirs.values) and all(self._same(a, b) for a, b in values)

    def _same(self, a: Any, b: Any) -> bool:
        if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
            return len(a) == len(b) and all(self._same(x, y) for x, y in zip(a, b, strict=True))
        if isinstance(a, float) and isinstance(b, float):
            a, b = torch.tensor(a, dtype=torch.float64), torch.tensor(b, dtype=torch.float64)
        if not (isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)):
            return bool(a == b) if type(a) is type(b) else False
        if a.shape != b.shape or a.device != b.device:
            return False
        wide = torch.complex128 if a.is_complex() or b.is_complex() else torch.float64
        if not (a.is_floating_point() or a.is_complex()):
            return torch.equal(a, b)
        return torch.allclose(a.to(wide), b.to(wide), self._rtol, self._atol, equal_nan=True)


def run_text(text: str) -> Sides:
    """What the script prints of each side until it ends or raises; ``print`` of the script keeps what it is given."""
    sides: dict[str, list[Printed]] = {EAGER: [], COMPILED: []}

    def note(label: str, *values: Any) -> None:
        raised = any(isinstance(v, BaseException) for v in values)
        held = tuple(_held(v) for v in values)
        sides[label].append(Printed(held, " ".join(map(str, values)), raised))

    reset()
    try:
        exec(compile(text, "<snippet>", "exec"), {"__name__": "__main__", "print": note})
    except Exception:  # of the program or of the compiler: then fewer lines are there
        pass
    finally:
        torch.set_grad_enabled(True)
        torch.set_default_dtype(torch.float32)
        torch.set_default_device(None)
    return sides


def _held(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    return [_held(v) for v in value] if isinstance(value, (list, tuple)) else value


def shortest(finding: Finding, seconds: float = SECONDS) -> Draft:
    """The finding's snippet, empty where none shows it."""
    check = finding.repro.check or DEFAULT_CHECK
    trials = Trials(check, seconds)
    values = _values(readable(finding.program))
    calls = int(finding.config.get("calls") or 1)
    for sketch in sketches(finding):
        for start in (sketch, _plainest(sketch, values)):
            for form in forms(start, finding.kinds, calls):
                tried = replace(start, form=form)
                if trials.over:
                    return Draft()
                if trials.differing(tried) is not None and trials.steady(tried):
                    simple = _simplified(tried, trials, values)
                    draft = _draft(simple, trials)
                    whole = replace(simple, form=form)  # of one element that agrees nothing follows
                    contrast = _contrast(whole, Trials(check, CONTRAST_SECONDS)) if draft.snippet else ""
                    return replace(draft, contrast=contrast)
    return Draft()


def _contrast(snippet: Snippet, trials: Trials) -> str:
    """With which other inputs both sides agree, "" where none were seen to."""
    if snippet.setup:  # of inputs that share memory one is not changed alone
        return ""
    try:
        values = [eval(text, {"torch": torch}) for _, text in snippet.inputs]
    except Exception:  # inputs of the program's own making
        return ""
    said = [str(dtype).removeprefix("torch.") for dtype in _agreeing_dtypes(snippet, values, trials)]
    parts = [f"inputs of {' or '.join(filter(None, [', '.join(said[:-1]), said[-1]]))}"] if said else []
    tensors = [v for v in values if isinstance(v, torch.Tensor) and v.layout is torch.strided]
    if any(not v.is_contiguous() for v in tensors) and trials.agree(_made_with(snippet, values, ".contiguous()")):
        parts.append("contiguous inputs")
    return f"With {' or with '.join(parts)} both agree." if parts else ""


def _agreeing_dtypes(snippet: Snippet, values: Sequence[Any], trials: Trials) -> Iterator[torch.dtype]:
    for others in _OTHER_DTYPES:
        floating = others[0].is_floating_point
        found = {v.dtype for v in values if isinstance(v, torch.Tensor) and _of_kind(v, floating)}
        for dtype in others if len(found) == 1 else ():
            if dtype not in found and trials.agree(_made_with(snippet, values, f".to({dtype})", floating)):
                yield dtype


def _of_kind(value: torch.Tensor, floating: bool) -> bool:
    """Whether a tensor is of floating point, or of whole numbers."""
    if floating:
        return value.is_floating_point()
    return not (value.is_floating_point() or value.is_complex() or value.dtype is torch.bool)


def _made_with(snippet: Snippet, values: Sequence[Any], more: str, floating: bool | None = None) -> Snippet:
    """The same with ``more`` after each input that is a tensor, of those of one kind if that is given."""
    made = []
    for (name, text), value in zip(snippet.inputs, values, strict=True):
        if isinstance(value, torch.Tensor) and (floating is None or _of_kind(value, floating)):
            text = f"({text}).detach(){more}" + (".requires_grad_()" if value.requires_grad else "")
        made.append((name, text))
    return replace(snippet, inputs=tuple(made))


def _plainest(sketch: Snippet, values: Sequence[Any]) -> Snippet:
    """The same with the plainest inputs: what is read out of bounds may hold what those of the program hold."""
    if not values:
        return sketch
    kept = (values[place] for place in sketch.kept)
    made = ((name, next(short_expressions(v), text)) for (name, text), v in zip(sketch.inputs, kept, strict=True))
    return replace(sketch, inputs=tuple(made))


def _draft(snippet: Snippet, trials: Trials) -> Draft:
    pair = trials.differing(snippet)
    if pair is None or not trials.steady(snippet):  # it comes and goes
        return Draft()
    return Draft(snippet.text(), "", snippet.form.kind.value, pair[0].text, pair[1].text)


def _values(program: str) -> list[Any]:
    """The inputs; none where they cannot be made here."""
    namespace: dict[str, Any] = {"torch": torch, "__name__": "__main__"}
    try:
        torch.manual_seed(0)
        exec(compile(program, "<program>", "exec"), namespace)
        return list(namespace["make_inputs"]())
    except Exception:
        return []


def _simplified(snippet: Snippet, trials: Trials, values: Sequence[Any]) -> Snippet:
    """The same with simpler inputs, fewer settings, less printed, as far as it still shows what it shows."""
    best = snippet
    for step in (_with_sizes, _with_shorter_inputs, _with_less_setup, _with_less_printed):
        for change in step(best, values, trials):
            if trials.over:
                break
            best = change
    if line_count(best.text()) > MOST_LINES:
        best = replace(best, joined=True)
    return best


def _with_sizes(best: Snippet, values: Sequence[Any], trials: Trials) -> Iterator[Snippet]:
    """With a few elements where a reduction left tensors that the function makes with none."""
    grown = tuple(_NO_SIZE.sub(lambda made: re.sub(r"\b0\b", "3", made[0]), text) for text in best.definitions)
    if grown != best.definitions and trials.differing(replace(best, definitions=grown)) is not None:
        yield replace(best, definitions=grown)


def _with_shorter_inputs(best: Snippet, values: Sequence[Any], trials: Trials) -> Iterator[Snippet]:
    pair = trials.differing(best)
    if not values or pair is None:
        return
    tells = _tells(pair[0])
    for at, (name, before) in enumerate(best.inputs):
        value = values[best.kept[at]]
        for made in _shorter(value, best.form.kind):
            if made == before or trials.over:  # what follows is no plainer
                break
            if len(made) > len(before) + MOST_LONGER:
                continue
            changed = replace(best, inputs=(*best.inputs[:at], (name, made), *best.inputs[at + 1 :]))
            pair = trials.differing(changed)
            if pair is not None and (_tells(pair[0]) or not tells):
                best = changed
                yield best
                break


def _tells(line: Printed) -> bool:
    """Whether numbers that are printed are not all zero: then a reader sees what should come out."""
    tensors = [v for v in line.values if isinstance(v, torch.Tensor)]
    return not tensors or any(bool(t.any()) for t in tensors)


def _shorter(value: Any, kind: Kind) -> Iterator[str]:
    if isinstance(value, torch.Tensor) and value.requires_grad and kind not in _OF_AUTOGRAD:
        yield from short_expressions(value.detach())
    yield from short_expressions(value)


def _with_less_setup(best: Snippet, values: Sequence[Any], trials: Trials) -> Iterator[Snippet]:
    """Without single lines of settings and set-up, and without what the calls are made under."""
    for line in (*best.settings, *best.setup):
        less = replace(
            best,
            settings=tuple(other for other in best.settings if other != line),
            setup=tuple(other for other in best.setup if other != line),
        )
        if not trials.over and trials.differing(less) is not None:
            best = less
            yield best
    if best.context and trials.differing(replace(best, context="")) is not None:
        yield replace(best, context="")


def _with_less_printed(best: Snippet, values: Sequence[Any], trials: Trials) -> Iterator[Snippet]:
    """One element of a large tensor, and all digits where the first four are the same."""
    pair = trials.differing(best)
    if pair is None:
        return
    for printed in _less(best.form.printed, *pair):
        changed = replace(best, form=replace(best.form, printed=printed))
        shown = trials.differing(changed)
        if shown is not None and shown[0].text != shown[1].text:
            yield changed
            return


def _less(printed: str, mine: Printed, theirs: Printed) -> Iterator[str]:
    """What may be printed in place of it, where that is more than a reader needs, or says the same of both sides."""
    long = max(mine.text.count("\n"), theirs.text.count("\n")) >= MOST_PRINTED
    if not long and mine.text != theirs.text:
        return
    if mine.raised or theirs.raised:
        if long:
            yield f"{printed}.shape"
        return
    if len(mine.values) != 1 or len(theirs.values) != 1:
        return
    a, b = mine.values[0], theirs.values[0]
    if not (isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) and a.shape == b.shape and a.numel()):
        return
    if a.numel() <= MOST_DIGITS:
        yield f"{printed}.tolist()"
        return
    at = _furthest(a, b)
    if a.ndim > 1 and a.shape[-1] <= MOST_DIGITS:
        yield f"{printed}[{', '.join(map(str, at[:-1]))}]"
    yield f"{printed}[{', '.join(map(str, at))}]"
    yield f"{printed}[{', '.join(map(str, at))}].item()"


def _furthest(a: torch.Tensor, b: torch.Tensor) -> tuple[int, ...]:
    """Where two tensors differ most."""
    wide = torch.complex128 if a.is_complex() else torch.float64
    off = (a.to(wide) - b.to(wide)).abs().nan_to_num(float("inf"), float("inf"))
    off = torch.where(a.isnan() & b.isnan(), 0.0, off)
    return tuple(int(i) for i in torch.unravel_index(off.argmax(), off.shape))


def main(folder: Path, out: Path) -> None:
    quiet()
    finding = from_json(Finding, json.loads((folder / "finding.json").read_text(encoding="utf-8")))
    out.write_text(json.dumps(to_json(shortest(finding))), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
