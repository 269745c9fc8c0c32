"""What was proved, of what, how and assuming what: kept by content, so that nothing is proved twice.

Two kinds: of an obligation (a scalar claim, the same for every shape that it was met in) and of an
instance (a rule with the dtypes, shapes, strides and scalars that it was used with).  Keys hold all
that the outcome depends on: the claim itself, the release of torch, the solver and its budget, and
the version of fxmorph's semantic model.  Files are written whole and renamed, so that processes may
share a folder.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import torch

from fxmorph.core.records import SPARSE, from_json, to_json
from fxmorph.core.versions import version_of
from fxmorph.model import Level, Proof
from fxmorph.programs.inputs import dtype_name
from fxmorph.prove.falsify import Contradiction, contradiction_in
from fxmorph.rewriting.instances import Instance
from fxmorph.rules import Rule
from fxmorph.torchapi.storages import storage_key

#: Raise it whenever an outcome may change: a step of the prover, a formula that an operator stands for, or
#: what is assumed with it.  Verdicts of another version are not reused.
PROVER_VERSION = 11


class ProofCode(StrEnum):
    """Why no more is shown, where that is decided on; the reason says it to people."""

    PLAIN = ""  #: nobody decides on it
    DOES_NOT_RUN = "does-not-run"  #: the pattern raises on these arguments
    AFTER_RAISES = "after-raises"  #: the replacement raises on these arguments, where the pattern does not
    MODEL_WRONG = "model-wrong"  #: eager contradicts what was shown
    INTEGERS_WRAP = "integers-wrap"  #: it is shown for integers that do not overflow
    NO_ARGUMENTS = "no-arguments"  #: nothing was found that meets the conditions
    ONLY_EMPTY = "only-empty"  #: only empty arguments were compared


#: What of a reason without a code stands for one.
_WORDS = (
    ("the model is wrong", ProofCode.MODEL_WRONG),
    ("shown for integers that do not overflow", ProofCode.INTEGERS_WRAP),
)


@dataclass(frozen=True)
class Asked:
    """A question to a solver: what was asked, ``sat``, ``unsat`` or ``unknown``, units of work, SMT-LIB script.

    ``answers`` are what solvers said that were asked again, with their version, as ``cvc5 1.4.2: unsat in 0.1 s``.
    """

    mode: str
    result: str
    rlimit: int
    smt: str
    answers: tuple[str, ...] = field(default=(), metadata=SPARSE)


@dataclass(frozen=True)
class Certificate:
    """A proof with its evidence.

    ``claim`` is what was proved, as text; ``obligations`` are the hashes of the scalar claims used;
    ``counterexample`` is set where ``proof.level`` is REFUTED, and for an obligation where its bits
    differ; ``versions`` says with what it was made.  ``code`` says of ``reason``, and ``contradicts`` of an
    instance's ``counterexample``, what is decided on.
    """

    key: str
    claim: str
    proof: Proof
    obligations: tuple[str, ...] = ()
    counterexample: str = ""
    reason: str = ""
    queries: tuple[Asked, ...] = ()
    versions: tuple[tuple[str, str], ...] = ()
    seconds: float = 0.0
    code: ProofCode = field(default=ProofCode.PLAIN, metadata=SPARSE)
    contradicts: Contradiction = field(default=Contradiction.NONE, metadata=SPARSE)

    @classmethod
    def from_stored(cls, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Of releases without codes those follow from the words."""
        if "code" in body or "contradicts" in body:
            return body
        reason = str(body.get("reason", ""))
        if reason.startswith("does not run"):
            return {**body, "code": ProofCode.DOES_NOT_RUN}
        if body["proof"]["level"] == Level.REFUTED:
            return {**body, "contradicts": contradiction_in(str(body.get("counterexample", "")))}
        return {**body, "code": next((code for words, code in _WORDS if words in reason), ProofCode.PLAIN)}


@dataclass
class Certificates:
    """Certificates by key, in memory and, with a folder, on disk."""

    folder: Path | None = None
    _memory: dict[str, Certificate] = field(default_factory=dict)

    def get(self, key: str) -> Certificate | None:
        found = self._memory.get(key)
        if found is None and self.folder is not None:
            try:
                found = from_json(Certificate, json.loads(self._path(key).read_text()))
            except (OSError, ValueError, TypeError, KeyError, AttributeError):
                return None  # absent, or half of a file from a machine that lost power
            if found.key != key:
                return None
            self._memory[key] = found
        return found

    def put(self, certificate: Certificate) -> None:
        """Keep it; a folder that cannot be written to costs the cache and nothing else."""
        self._memory[certificate.key] = certificate
        if self.folder is None:
            return
        path = self._path(certificate.key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _write_whole(path, json.dumps(to_json(certificate), indent=1))
        except OSError:
            self.folder = None

    def of_rule(self, id: str) -> list[Certificate]:
        """Those on disk that state something of this rule's arguments: of an earlier text of the rule too."""
        said = json.dumps(f"{id}(")[:-1]
        files = self.folder.glob("*/*.json") if self.folder is not None else ()
        keys = [file.stem for file in files if f'"claim": {said}' in file.read_text(errors="replace")]
        return [found for key in keys if (found := self.get(key)) is not None]

    def ship(self, keys: Iterable[str], folder: Path) -> None:
        """Write the certificates of ``keys`` and of the obligations that they use, queries as ``.smt2`` files.

        Raises ``OSError``.
        """
        todo = list(dict.fromkeys(keys))
        for key in todo:
            found = self.get(key)
            if found is None:
                continue
            todo += [k for k in found.obligations if k not in todo]
            folder.mkdir(parents=True, exist_ok=True)
            bare = replace(found, queries=tuple(replace(q, smt="") for q in found.queries))
            (folder / f"{key}.json").write_text(json.dumps(to_json(bare), indent=1) + "\n")
            for i, asked in enumerate(found.queries):
                (folder / f"{key}.{i}.smt2").write_text(f"; {asked.mode}: {asked.result}\n{asked.smt}\n")

    def _path(self, key: str) -> Path:
        assert self.folder is not None
        return self.folder / key[:2] / f"{key}.json"


def _write_whole(path: Path, text: str) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "w") as f:
        f.write(text)
    os.replace(name, path)


@functools.cache
def versions() -> tuple[tuple[str, str], ...]:
    """With what proofs are made here."""
    return (("prover", str(PROVER_VERSION)), ("torch", torch.__version__), ("z3", version_of("z3-solver")))


def key_of(*parts: object) -> str:
    """32 hex digits of everything that decides an outcome."""
    text = json.dumps([*parts, versions()], default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _compiled(code: CodeType) -> list[Any]:
    nested = [_compiled(c) if isinstance(c, CodeType) else c for c in code.co_consts]
    return [code.co_code, nested, code.co_names, code.co_varnames, code.co_freevars]


def _context(function: Any, seen: set[Any]) -> list[str]:
    """What a function uses besides its text: closed over or global values, and functions of its own module."""
    if function in seen:
        return []
    seen.add(function)
    code = function.__code__
    used: dict[str, Any] = {n: function.__globals__[n] for n in code.co_names if n in function.__globals__}
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            used[name] = cell.cell_contents
        except ValueError:
            continue  # not set yet
    # Two functions on one line have one text.
    out = [repr(_compiled(code)), repr(function.__defaults__), repr(function.__kwdefaults__)]
    for name, value in sorted(used.items()):
        if isinstance(value, FunctionType):
            if value.__module__ == function.__module__:
                out += [name, *_context(value, seen)]
        elif isinstance(value, torch.Tensor):
            out += [name, repr(value.tolist())]
        elif isinstance(value, (int, float, str, tuple, list, dict, torch.dtype)) or value is None:
            out += [name, repr(value) if " at 0x" not in repr(value) else ""]
    return out


@functools.cache
def _sources(before: Any, after: Any) -> str:
    written = [getattr(f, "text", None) for f in (before, after)]
    if None not in written:  # read from data
        return repr(written)
    try:
        return inspect.getsource(before) + inspect.getsource(after)
    except (OSError, TypeError):  # typed in, not from a file
        return repr([_compiled(f.__code__) for f in (before, after)])


def _used(rule: Rule) -> list[list[str]]:
    """What the bodies of a rule use besides their text."""
    return [_context(f, set()) for f in (rule.before, rule.after) if isinstance(f, FunctionType)]


def rule_hash(rule: Rule) -> str:
    """16 hex digits of what a rule says: bodies with all that they call, scalars, dtypes, promises and conditions."""
    said = [rule.id, _sources(rule.before, rule.after), rule.args, rule.where, rule.claim, rule.assumes,
            sorted(rule.preserves), rule.site, rule.mixed, rule.scalars, rule.dtypes, _used(rule)]  # fmt: skip
    return hashlib.sha256(repr(said).encode()).hexdigest()[:16]


def _laid_out(name: str, t: torch.Tensor, tensors: Mapping[str, torch.Tensor]) -> str:
    """What a proof depends on of an argument but for values: dtype, shape, strides, offset, whose memory it is."""
    text = f"{dtype_name(t.dtype)}{list(t.shape)} strides {list(t.stride())}"
    if t.storage_offset():
        text += f" offset {t.storage_offset()}"
    same = next(n for n, other in tensors.items() if other is t)
    if same != name:
        return f"{same} itself"
    first = next(n for n, other in tensors.items() if storage_key(other) == storage_key(t))
    return text if first == name else f"{text} in the memory of {first}"


def instance_text(instance: Instance) -> str:
    """A rule with the arguments that its proof depends on."""
    parts = [f"{n}: {_laid_out(n, t, instance.tensors)}" for n, t in instance.tensors.items()]
    parts += [f"{n} = {v!r}" for n, v in instance.scalars.items()]
    return f"{instance.rule.id}({', '.join(parts)})"


def instance_key(instance: Instance, budget: int) -> str:
    """The key of an instance's certificate; index values enter it, other values do not."""
    known = [(n, instance.tensors[n].tolist()) for n in sorted(instance.known())]
    rule = instance.rule
    return key_of("instance", rule_hash(rule), instance_text(instance), known, budget, instance.device)
