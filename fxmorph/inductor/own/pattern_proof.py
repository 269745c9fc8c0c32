"""A pattern and its replacement as a rule: proved for many sizes, or refuted on some, before any graph is looked at.

What a pass's own check leaves out may refute the pair: a refutation alone accuses nobody, and its sizes are tried on
the pass.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from fxmorph.inductor.derive.search_function import traced_search
from fxmorph.inductor.derive.sketch import Misfit as NoSketch
from fxmorph.inductor.firing.pattern_programs import scalars_of
from fxmorph.inductor.firing.small_program import Misfit, SmallProgram, program_of
from fxmorph.inductor.firing.vocabulary import vocabulary
from fxmorph.inductor.own.stub_operators import is_stub
from fxmorph.model import Level
from fxmorph.programs.inputs import dtype_name
from fxmorph.prove.argument_draws import arguments_of
from fxmorph.prove.prover import Prover
from fxmorph.prove.rule_level import RuleProof, prove_rule
from fxmorph.rules import Rule
from fxmorph.torchapi.dispatch import OpOverloadPacket
from fxmorph.torchapi.patterns import Source

#: Arguments that are proved, and more that eager tries to refute.
PROVED, TRIED = 4, 12


@dataclass(frozen=True)
class PatternProof:
    """What was shown of a pattern's pair, and the sizes of arguments that refute it, as programs."""

    proof: RuleProof
    refuting: tuple[SmallProgram, ...] = ()

    def __str__(self) -> str:
        p = self.proof
        if p.level is Level.REFUTED:
            return f"pattern {p.rule} is not its replacement: {p.counterexample}"
        if p.level is Level.UNKNOWN:
            return f"pattern {p.rule}: nothing is shown of the pair itself"
        assumed = f", assuming {', '.join(p.assumptions)}" if p.assumptions else ""
        return f"pattern {p.rule}: {p.level} by {p.method}{assumed}; {p.scope}"


def pattern_proof(source: Source, prover: Prover) -> PatternProof | None:
    """None for what has no arguments that are tensors, or is a joint forward and backward graph."""
    rule = _rule(source)
    if rule is None or _calls_stubs(source):
        return None
    try:
        proof = prove_rule(rule, rule.dtypes[0], prover, PROVED, TRIED)
    except Exception:  # a pattern is its author's, and may raise anything
        return None
    return PatternProof(proof, tuple(_refuting(source, rule, prover)) if proof.level is Level.REFUTED else ())


def _calls_stubs(source: Source) -> bool:
    """Whether either side calls a stand-in of which nothing is known."""
    named = vocabulary((source.search_fn, source.replace_fn)).operators
    return any(is_stub(o) or any(is_stub(getattr(o, n)) for n in _overloads(o)) for o in named)


def _overloads(operator: object) -> list[str]:
    return list(operator.overloads()) if isinstance(operator, OpOverloadPacket) else []


def _rule(source: Source) -> Rule | None:
    if source.training:
        return None
    try:
        names = list(inspect.signature(source.search_fn).parameters)
    except (TypeError, ValueError):
        return None
    given = {**({} if source.example_inputs else scalars_of(source.search_fn)), **source.scalars}
    tensors = [n for n in names if n not in given]
    examples = [t for t in source.example_inputs if isinstance(t, torch.Tensor)]
    if not tensors or (source.example_inputs and len(examples) != len(tensors)):
        return None
    name = getattr(source.search_fn, "__name__", "search")
    words = _words([tuple(int(n) for n in t.shape) for t in examples]) or ["..."] * len(tensors)
    dtypes = tuple(dict.fromkeys(dtype_name(t.dtype) for t in examples)) or ("float32",)
    scalars = {n: (value,) for n, value in given.items()}
    return Rule(
        name, source.search_fn, source.replace_fn, dict(zip(tensors, words, strict=True)), "", scalars=scalars,
        dtypes=dtypes, mixed=len(dtypes) > 1,
    )  # fmt: skip


def _words(shapes: Sequence[tuple[int, ...]]) -> list[str]:
    """A letter for each size: the same one in several tensors, and none twice in one; 1 stays what it is."""
    letters: dict[int, list[str]] = {}
    made = 0
    out = []
    for shape in shapes:
        used: dict[int, int] = {}
        words = []
        for n in shape:
            if n == 1:
                words.append("1")
                continue
            place = used[n] = used.get(n, -1) + 1
            known = letters.setdefault(n, [])
            if place == len(known):
                known.append(f"n{made}")
                made += 1
            words.append(known[place])
        out.append(" ".join(words))
    return out


def _refuting(source: Source, rule: Rule, prover: Prover) -> Iterator[SmallProgram]:
    """The pattern on the sizes on which it is not its replacement."""
    if not source.example_inputs:
        return
    for instance in arguments_of(rule, rule.dtypes[0], PROVED):
        if prover.prove(instance).proof.level is not Level.REFUTED:
            continue
        given = replace(source, example_inputs=tuple(instance.tensors.values()))
        try:
            yield program_of(*traced_search(given, False, "as given"), f"pattern {rule.id} on what refutes the pair")
        except (NoSketch, Misfit):
            continue  # the sizes are tried on what can be traced
