"""Where a rule applies in a graph, and applying it: sites, matching, recipes.

A graph is profiled by running it once on its own inputs: that gives each node's shape,
dtype, strides and value, which nodes share memory, and who writes to memory when.  A rule
that may change what aliases what is applied only where the memory involved is not written
later, so that a recipe preserves meaning by construction; each application is checked on
the real values of its site against the rule's claim.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import fx

from fxmorph.core.clock import Clock
from fxmorph.judge.numeric import same_bits
from fxmorph.model import Level, Proof, Recipe, Rewrite, RewriteProof, TensorSpec
from fxmorph.programs.canon import Operation, canonical
from fxmorph.programs.graph import calls, copy_graph, print_graph
from fxmorph.programs.inputs import InputSet, dtype_name, relocate, spec_of, storage_key, strided_clone
from fxmorph.programs.observe import loss_of
from fxmorph.prove.falsify import REAL_TOLERANCE, real_gap
from fxmorph.prove.prover import Prover, stronger
from fxmorph.rewriting.instances import Instance, broken, holds, sample_arguments, sample_values
from fxmorph.rewriting.tracing import BoundFloat, BoundInt, TracingError, trace
from fxmorph.rules import PRESERVABLE, PROPOSED, Registry, Rule, RuleError
from fxmorph.torchapi.dispatch import tree_leaves

#: Graphs whose values exceed this many elements are not rewritten.
MAX_ELEMENTS = 20_000_000
#: The built-in rewrite that returns a value of the program as one more output.  What was
#: there stays; what the compiler may alias, reuse or drop shows.
EXPOSE = "expose"
EXPOSE_SHARE = 0.6
#: What says nothing of the program.
_OUT_OF_MEMORY = (MemoryError, torch.OutOfMemoryError)
#: How often a rewrite that may copy a value is followed by a write to what it copied: most
#: real aliasing bugs need both.
CHASE_SHARE = 0.5


class Inapplicable(Exception):
    """The rewrite cannot be applied here (no such site, or it would not be safe)."""


class Unsound(Exception):
    """The two sides of a rule differ on real values where its claim says they cannot.

    A rule that says so (``preserves`` has ``raises``) may not raise where the pattern does not either.
    """

    def __init__(self, rewrite: Rewrite, what: str) -> None:
        super().__init__(f"{rewrite}: {what}")
        self.rewrite = rewrite


@dataclass
class Profile:
    """One run of a graph, node by node.

    ``values`` are clones as they were when computed; ``reread`` has those that were written to since,
    as a later node read them, by (reader, read).
    """

    order: dict[fx.Node, int] = field(default_factory=dict)
    values: dict[fx.Node, Any] = field(default_factory=dict)
    reread: dict[tuple[fx.Node, fx.Node], torch.Tensor] = field(default_factory=dict)
    specs: dict[fx.Node, TensorSpec] = field(default_factory=dict)
    storages: dict[fx.Node, frozenset[int]] = field(default_factory=dict)
    writes: list[tuple[int, int]] = field(default_factory=list)  # (order of the writer, storage)
    #: Nodes that require grad once the graph has run; a later write may have made them.
    differentiable: frozenset[fx.Node] = frozenset()

    def read_by(self, readers: Iterable[fx.Node], node: fx.Node) -> Any:
        """The value of ``node`` as the first of ``readers`` that reads it found it, which is all of them's."""
        return next((self.reread[r, node] for r in readers if (r, node) in self.reread), self.values[node])

    def written_after(self, storages: frozenset[int], order: int) -> bool:
        """Whether a later node writes to any of the storages."""
        return any(k > order and s in storages for k, s in self.writes)

    def touched_after(self, storages: frozenset[int], order: int) -> bool:
        """Whether a later node (the output included) reads or writes any of the storages."""
        for node, k in self.order.items():
            if k > order:
                used = [node, *node.all_input_nodes] if node.op != "output" else node.all_input_nodes
                if any(self.storages.get(n, frozenset()) & storages for n in used):
                    return True
        return False


def _readable(t: Any) -> bool:
    return isinstance(t, torch.Tensor) and t.layout == torch.strided and not t.is_quantized


def _bytes(t: torch.Tensor) -> torch.Tensor:
    """The memory under ``t`` as bytes, sharing it."""
    return torch.empty(0, dtype=torch.uint8, device=t.device).set_(t.detach().untyped_storage())


class _Profiler(fx.Interpreter):
    def __init__(self, graph: fx.Graph) -> None:
        super().__init__(fx.GraphModule(torch.nn.Module(), graph), garbage_collect_values=False)
        self.profile = Profile()
        self._tensors: dict[int, torch.Tensor] = {}
        self._versions: dict[int, int] = {}
        self._contents: dict[int, torch.Tensor] = {}
        self._total = 0

    def run_node(self, n: fx.Node) -> Any:
        read = [self.env[a] for a in n.all_input_nodes if isinstance(self.env.get(a), torch.Tensor)]
        for a in n.all_input_nodes:
            if a in self.profile.specs and self.profile.written_after(self.profile.storages[a], self.profile.order[a]):
                self.profile.reread[n, a] = strided_clone(self.env[a])
        result = super().run_node(n)
        p = self.profile
        k = p.order[n] = len(p.order)
        keys = set()
        for t in tree_leaves(result):
            if isinstance(t, torch.Tensor) and t.layout == torch.strided:
                key = storage_key(t)
                keys.add(key)
                if key not in self._tensors:
                    self._tensors[key], self._versions[key] = t, t._version
                self._total += t.numel()
        p.storages[n] = frozenset(keys)
        for key, t in self._tensors.items():
            if t._version != self._versions[key]:
                self._versions[key] = t._version
                p.writes.append((k, key))
        self._unannounced_writes(k, read if n.op != "output" else [])
        for t in (*read, *tree_leaves(result)):
            if _readable(t):
                self._contents[storage_key(t)] = _bytes(t).clone()
        if self._total > MAX_ELEMENTS:
            raise Inapplicable("graph too large to profile")
        if isinstance(result, torch.Tensor) and result.layout == torch.strided and not result.is_quantized:
            p.specs[n] = spec_of(result, len(p.specs))
            p.values[n] = strided_clone(result)
        elif not isinstance(result, torch.Tensor):
            p.values[n] = result if isinstance(result, (int, float, bool)) else None
        return result

    def _unannounced_writes(self, order: int, read: list[torch.Tensor]) -> None:
        """Some operators write without counting a version (batch_norm its running statistics)."""
        for t in filter(_readable, read):
            key = storage_key(t)
            before, now = self._contents.get(key), _bytes(t)
            changed = before is not None and before.shape == now.shape and not torch.equal(before, now)
            if changed and (order, key) not in self.profile.writes:
                self.profile.writes.append((order, key))


def profile(graph: fx.Graph, inputs: InputSet, backward: bool = False, partial: bool = False) -> Profile:
    """Run the graph on the inputs, and its backward pass if asked; raises whatever the program raises.

    ``partial``: of a program that raises, what was seen until then.
    """
    torch.manual_seed(2)
    profiler = _Profiler(graph)
    try:
        out = profiler.run(*inputs.rebuild())
    except Exception:
        if partial:
            return profiler.profile
        raise
    profiler.profile.differentiable = frozenset(
        n for n, value in profiler.env.items() if isinstance(value, torch.Tensor) and value.requires_grad
    )
    if backward:
        loss = loss_of([t for t in tree_leaves(out) if isinstance(t, torch.Tensor)], exact=False)
        if loss is not None and loss.requires_grad:
            loss.backward()
    return profiler.profile


# -- patterns ------------------------------------------------------------------


@dataclass
class _Pattern:
    """``before`` traced on sample tensors: operations by node, parameters as wildcards."""

    root: fx.Node
    params: dict[fx.Node, str]
    operations: dict[fx.Node, Operation]


_patterns: dict[tuple[str, Callable[..., Any]], _Pattern | None] = {}


def pattern_of(rule: Rule) -> _Pattern | None:
    """The structure that ``before`` matches; None where it cannot be traced on samples."""
    key = (rule.id, rule.before)  # of a proposal another may have its name and place
    if key not in _patterns:
        rng = random.Random(f"pattern {rule.id}")
        made: _Pattern | None = None
        for _ in range(20):
            sample = sample_arguments(rule, rng)
            if sample is None:
                break
            tensors, scalars = sample
            for name, choices in rule.scalars.items():
                if choices is None:
                    kind = BoundFloat if isinstance(scalars[name], float) else BoundInt
                    scalars[name] = kind(scalars[name])
                    scalars[name].name = name
            graph = fx.Graph()
            given = {n: (graph.placeholder(n), t) for n, t in tensors.items()}
            try:
                out, nodes = trace(rule.before, graph, given, scalars)
            except Exception:
                continue
            if nodes:
                made = _Pattern(out.node, {n: k for k, (n, _) in given.items()}, {n: canonical(n) for n in nodes})
                break
        _patterns[key] = made
    return _patterns[key]


@dataclass
class Match:
    """A place where a rule's pattern lies in a graph."""

    root: fx.Node
    args: dict[str, fx.Node]
    scalars: dict[str, Any]
    inner: list[fx.Node]


def _match(pattern: _Pattern, node: fx.Node, ops: dict[fx.Node, Operation]) -> Match | None:
    args: dict[str, fx.Node] = {}
    scalars: dict[str, Any] = {}
    matched: dict[fx.Node, fx.Node] = {}

    def same(want: Any, got: Any) -> bool:
        if isinstance(want, fx.Node):
            if not isinstance(got, fx.Node):
                return False
            if want in pattern.params:
                return args.setdefault(pattern.params[want], got) is got
            return nodes(want, got)
        if isinstance(want, (BoundFloat, BoundInt)):
            if isinstance(got, bool) or not isinstance(got, (int, float)):
                return False
            return scalars.setdefault(want.name, got) == got
        if isinstance(want, (list, tuple)):
            return isinstance(got, (list, tuple)) and len(want) == len(got) and all(map(same, want, got))
        if isinstance(want, slice):
            return isinstance(got, slice)
        return not isinstance(got, fx.Node)  # literals are compared at the site

    def nodes(want: fx.Node, got: fx.Node) -> bool:
        if want in matched:
            return matched[want] is got
        a, b = pattern.operations.get(want), ops.get(got)
        if a is None or b is None or a.name != b.name or len(a.arguments) != len(b.arguments):
            return False
        matched[want] = got
        return all(k == j and same(v, w) for (k, v), (j, w) in zip(a.arguments, b.arguments, strict=True))

    if not nodes(pattern.root, node):
        return None
    return Match(node, args, scalars, [n for n in matched.values() if n is not node])


def _literals_agree(rule: Rule, match: Match, ops: dict[fx.Node, Operation], tensors: dict[str, torch.Tensor]) -> bool:
    """Trace ``before`` on the site's values and compare every literal.

    It runs on the CPU: with literals that are not the site's, indices may be out of bounds,
    which breaks a GPU for good.
    """
    graph = fx.Graph()
    device = next(iter(tensors.values())).device
    try:
        given = {n: (graph.placeholder(n), relocate(strided_clone(t), "cpu")) for n, t in tensors.items()}
        out, made = trace(rule.before, graph, given, match.scalars)
    except Exception:
        return False
    back: dict[fx.Node, fx.Node] = {node: match.args[n] for n, (node, _) in given.items()}
    floating = all(t.is_floating_point() for t in tensors.values())

    def same(want: Any, got: Any) -> bool:
        if isinstance(want, fx.Node):
            if want in back:
                return back[want] is got
            return isinstance(got, fx.Node) and nodes(want, got)
        if isinstance(got, fx.Node):
            return False
        if isinstance(want, (list, tuple)):
            return isinstance(got, (list, tuple)) and len(want) == len(got) and all(map(same, want, got))
        if isinstance(want, torch.device):
            return bool(got == (device if want.type == "cpu" else want))
        if isinstance(want, slice):
            return isinstance(got, slice) and (want.start, want.stop, want.step) == (got.start, got.stop, got.step)
        if isinstance(want, (int, float)) and isinstance(got, (int, float)) and floating:
            return want == got and isinstance(want, bool) == isinstance(got, bool)
        return type(want) is type(got) and want == got

    def nodes(want: fx.Node, got: fx.Node) -> bool:
        a, b = canonical(want), ops.get(got)
        if b is None or a.name != b.name or len(a.arguments) != len(b.arguments):
            return False
        back[want] = got
        return all(k == j and same(v, w) for (k, v), (j, w) in zip(a.arguments, b.arguments, strict=True))

    return bool(made) and nodes(out.node, match.root)


# -- sites ---------------------------------------------------------------------


class Workbench:
    """A graph under rewriting, its inputs, and its profile, kept in step.

    With a ``prover`` each rewrite is proved for the arguments of its site.
    """

    def __init__(
        self, graph: fx.Graph, inputs: InputSet, no_grad: bool, prover: Prover | None = None, clock: Clock | None = None
    ) -> None:
        self.prover, self.clock = prover, clock or Clock()
        self.graph = copy_graph(graph)
        self.inputs = inputs
        self.no_grad = no_grad
        self.applied: list[Rewrite] = []
        #: What every rewrite so far promises to keep.
        self.kept = frozenset(PRESERVABLE)
        #: How exactly each rewrite keeps values: as claimed, or less where less is shown.
        self.levels: list[Level] = []
        self.proofs: list[RewriteProof] = []
        #: What the values at the site of a rewrite must meet beside its rule's assumptions.
        self.conditions: dict[str, tuple[str, ...]] = {}
        self._refresh()

    def _refresh(self, backward: bool = False) -> None:
        with torch.set_grad_enabled(not self.no_grad):
            self.profile = profile(self.graph, self.inputs, backward and not self.no_grad)
        self.ops = {n: canonical(n) for n in calls(self.graph)}
        self.nodes = {n.name: n for n in self.graph.nodes}
        self.output = next(n for n in self.graph.nodes if n.op == "output")

    def _raw_views(self) -> dict[str, tuple[Any, ...]]:
        """Layout of the operand of each node that addresses memory by absolute offset and strides."""
        out: dict[str, tuple[Any, ...]] = {}
        for node, op in self.ops.items():
            if op.name.startswith("as_strided"):
                spec = self.profile.specs.get(node.all_input_nodes[0])
                if spec is not None:
                    out[node.name] = (spec.dtype, spec.offset, spec.stride, spec.storage_size)
        return out

    def sites(self, rule: Rule) -> Iterator[tuple[fx.Node, Match]]:
        """Nodes where the rule may be applied, by structure, dtypes, shapes and memory."""
        if rule.site == "op":
            pattern = pattern_of(rule)
            if pattern is None:
                return
            for node in calls(self.graph):
                found = _match(pattern, node, self.ops)
                if found is not None and self._usable(rule, found):
                    yield node, found
            return
        name = next(iter(rule.args))
        for node in self.graph.nodes:
            if node.op == "output" or node not in self.profile.specs:
                continue
            if rule.site == "value" and not node.users:
                continue
            found = Match(node, {name: node}, {}, [])
            if self._usable(rule, found):
                yield node, found

    def _usable(self, rule: Rule, match: Match) -> bool:
        p = self.profile
        if any(n not in p.specs for n in (*match.args.values(), match.root)):
            return False
        specs = {n: p.specs[node] for n, node in match.args.items()}
        if set(specs) != set(rule.args):
            return False
        scalars = {**match.scalars, **{n: c[0] for n, c in rule.scalars.items() if c is not None}}
        if not holds(rule, specs, scalars):
            return False
        first = min(p.order[n] for n in (match.root, *match.inner))
        last = p.order[match.root]
        memory = frozenset().union(*(p.storages[n] for n in match.args.values()))
        if match.inner and any(first <= k < last and s in memory for k, s in p.writes):
            return False
        if rule.site == "late":
            spec = specs[next(iter(specs))]
            return spec.dense and match.root not in p.differentiable and spec.numel > 0
        if "alias" not in rule.preserves:
            return not p.written_after(memory | p.storages[match.root], last)
        return True

    def late_points(self, rule: Rule, node: fx.Node) -> list[fx.Node]:
        """Nodes after which a late rule may be inserted for ``node``."""
        p, memory = self.profile, self.profile.storages[node]
        points = [n for n in self.graph.nodes if n.op not in ("placeholder", "output") and p.order[n] >= p.order[node]]
        if "mutation" in rule.preserves:
            return points
        return [n for n in points if not p.touched_after(memory, p.order[n])]

    # -- application -----------------------------------------------------------

    def apply(self, rule: Rule, rewrite: Rewrite, match: Match | None = None) -> None:
        """Apply one rewrite and re-profile; raises :class:`Inapplicable` or :class:`Unsound`."""
        node = self._node(rewrite)
        if match is None:
            match = next((m for n, m in self.sites(rule) if n is node), None)
            if match is None:
                raise Inapplicable(f"{rule.id} does not apply at {rewrite.site}")
        backup = copy_graph(self.graph)
        raw = self._raw_views()
        try:
            instance = self._insert(rule, rewrite, match)
            self.graph.lint()
            # New names must depend on the graph alone, not on what was tried before.
            self.graph = copy_graph(self.graph)
            self._run_again(rule, rewrite, backup)
            moved = [name for name, layout in self._raw_views().items() if raw.get(name, layout) != layout]
            if moved:
                raise Inapplicable(f"{rule.id}: {moved[0]} addresses the memory of what changes its layout")
            print_graph(self.graph)
            level = self._prove(rewrite, instance) if self.prover is not None else rule.claim
        except Exception as error:
            self.graph = backup
            self._refresh()
            if isinstance(error, (Inapplicable, Unsound)):
                raise
            raise Inapplicable(f"{rule.id}: {type(error).__name__}: {error}") from error
        self.applied.append(rewrite)
        self.levels.append(level)
        self.kept &= rule.preserves

    def _run_again(self, rule: Rule, rewrite: Rewrite, backup: fx.Graph) -> None:
        """Profile the rewritten graph; :class:`Unsound` where it raises, ``backup`` does not, and the rule says so."""
        # A write may hit what autograd saved; eager then refuses the backward pass.
        backward = rule.family in ("mutate", PROPOSED)
        try:
            self._refresh(backward)
        except Inapplicable:
            raise
        except Exception as error:
            if "raises" not in rule.preserves or isinstance(error, _OUT_OF_MEMORY):
                raise
            self.graph = backup
            self._refresh(backward)
            raise Unsound(rewrite, f"the program then raises {_named(error)}") from error

    def _prove(self, rewrite: Rewrite, instance: Instance) -> Level:
        """The weaker of what the rule claims and what is shown here; raises :class:`Unsound` where it is refuted."""
        assert self.prover is not None
        started = time.process_time()
        with self.clock.activity("prove"):
            made, cached = self.prover.proved(instance)
        proof = made.proof
        if proof.level is Level.REFUTED:
            raise Unsound(rewrite, f"refuted: {made.counterexample}")
        if proof.level is Level.UNKNOWN:  # both sides agree on the site's own values
            proof = Proof(Level.TESTED, proof.scope, "FALSIFY-ONLY", proof.assumptions)
        seconds = round(time.process_time() - started, 5)
        self.proofs.append(RewriteProof(str(rewrite), proof, made.key, seconds, cached))
        return proof.level if stronger(instance.rule.claim, proof.level) else instance.rule.claim

    def _node(self, rewrite: Rewrite) -> fx.Node:
        if rewrite.site not in self.nodes:
            raise Inapplicable(f"no node {rewrite.site!r}")
        return self.nodes[rewrite.site]

    def expose(self, rewrite: Rewrite) -> None:
        """Return the value of a node as one more output; raises :class:`Inapplicable`."""
        node, output = self._node(rewrite), self.output
        listed = output.args[0]
        if node not in self.profile.specs or not isinstance(listed, (tuple, list)) or node in listed:
            raise Inapplicable(f"{rewrite.site} cannot be exposed")
        # The loss then has one more term, whose backward pass may meet what a write destroyed.
        if node in self.profile.differentiable:
            self.kept -= {"gradient", "raises"}
        output.args = ((*listed, node),)
        self._refresh()
        self.applied.append(rewrite)

    def _insert(self, rule: Rule, rewrite: Rewrite, match: Match) -> Instance:
        """Put the replacement in place; the rule with the arguments of the site.

        A rule that claims nothing (UNKNOWN: a mutation) is not compared.
        """
        p = self.profile
        values = {n: p.read_by((*match.inner, match.root), node) for n, node in match.args.items()}
        scalars = {**match.scalars, **dict(rewrite.choices)}
        if rule.site == "op":
            match.scalars = {k: v for k, v in scalars.items()}
            if not _literals_agree(rule, match, self.ops, values):
                raise Inapplicable(f"{rule.id}: literals differ at {rewrite.site}")
        unmet = broken((*rule.assumes, *self.conditions.get(str(rewrite), ())), values)
        if unmet:
            raise Inapplicable(f"{rule.id}: values are not {unmet}")
        anchor = self._anchor(rule, rewrite, match)
        users = list(match.root.users)
        given = {n: (node, strided_clone(values[n])) for n, node in match.args.items()}
        instance = Instance(rule, values, scalars)
        old = instance.before(instance.copies())
        with self.graph.inserting_before(anchor), torch.no_grad():
            try:
                out, made = trace(rule.after, self.graph, given, scalars)
            except TracingError as error:
                raise Inapplicable(f"{rule.id}: {error}") from error
            except Exception:
                if "raises" in rule.preserves:
                    _require_to_run(rewrite, instance)
                raise
        if rule.claim is not Level.UNKNOWN and (rule.site != "late" or "mutation" in rule.preserves):
            check_claim(rewrite, instance, old, out.value)
        if rule.site == "late":
            return instance
        if rule.site == "value":
            if rewrite.at:
                users = [u for u in users if u.name == rewrite.at]
                if not users:
                    raise Inapplicable(f"{rewrite.site} has no user {rewrite.at!r}")
            new = set(made)
            for user in users:
                if user not in new:
                    user.replace_input_with(match.root, out.node)
            return instance
        match.root.replace_all_uses_with(out.node, delete_user_cb=lambda u: u not in made)
        self.graph.erase_node(match.root)
        for inner in sorted(match.inner, key=lambda n: -p.order[n]):
            if not inner.users and not any(k == p.order[inner] for k, _ in p.writes):
                self.graph.erase_node(inner)
        return instance

    def _anchor(self, rule: Rule, rewrite: Rewrite, match: Match) -> fx.Node:
        """The node before which new nodes go."""
        if rule.site == "op":
            return match.root
        after = match.root
        if rule.site == "late":
            point = self.nodes.get(rewrite.at)
            if point is None or point not in self.late_points(rule, match.root):
                raise Inapplicable(f"{rule.id} cannot run after {rewrite.at!r}")
            after = point
        following = after.next
        while following.op == "placeholder":
            following = following.next
        return following


def _require_to_run(rewrite: Rewrite, instance: Instance) -> None:
    """Run the replacement as it is on the site's values; raises :class:`Unsound` where that raises."""
    try:
        instance.after(instance.copies())
    except _OUT_OF_MEMORY:
        return
    except Exception as error:
        raise Unsound(rewrite, f"after raises {_named(error)}") from error


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def check_claim(rewrite: Rewrite, instance: Instance, old: torch.Tensor, new: torch.Tensor) -> None:
    """Compare both sides on the site's values as exactly as the rule claims; raises :class:`Unsound`."""
    rule = instance.rule
    if new.shape != old.shape:
        raise Unsound(rewrite, f"shape {tuple(old.shape)} becomes {tuple(new.shape)}")
    if new.dtype != old.dtype:
        if "dtype" in rule.preserves:
            raise Unsound(rewrite, f"dtype {dtype_name(old.dtype)} becomes {dtype_name(new.dtype)}")
        raise Inapplicable(f"{rule.id} changes the dtype here")
    old, new = old.detach(), new.detach()
    if same_bits(old, new):
        return
    if rule.claim in (Level.INDEX_EXACT, Level.BIT_EXACT):
        raise Unsound(rewrite, "bits differ")
    if not old.is_floating_point() and not old.is_complex():
        raise Unsound(rewrite, "integers differ")
    if rule.claim in (Level.BIT_EXACT_MOD_ZERO_SIGN, Level.UNDER_PRECONDITION) and same_bits(old + 0.0, new + 0.0):
        return
    if rule.claim is Level.BIT_EXACT_MOD_ZERO_SIGN:
        raise Unsound(rewrite, "values differ by more than the sign of zero")
    if bool((torch.isfinite(old) != torch.isfinite(new)).any()):
        raise Inapplicable(f"{rule.id}: one side overflows on these values")
    gap = real_gap(instance)
    if gap is None or gap == float("inf"):
        raise Inapplicable(f"{rule.id}: cannot be compared in fp64 here")
    if gap <= REAL_TOLERANCE:
        return
    # Equal over the reals and yet apart: is it these values (cancellation, -1e38 masks) or the rule?
    rng = random.Random(f"benign {rewrite}")
    benign = {
        n: sample_values(list(t.shape), torch.float64, rng) if t.is_floating_point() else t
        for n, t in instance.tensors.items()
    }
    gap = real_gap(instance.with_values(benign))
    if gap is None or gap <= REAL_TOLERANCE or gap == float("inf"):
        raise Inapplicable(f"{rule.id}: ill-conditioned on these values")
    raise Unsound(rewrite, f"in fp64 the sides differ by {gap:.3g} of the largest value")


# -- recipes -------------------------------------------------------------------

#: How many rewrites a variant gets, and how often.
LENGTHS = (1, 2, 3, 4, 5, 6)
LENGTH_WEIGHTS = (2, 4, 4, 3, 2, 1)
#: Families that hit what real bugs are made of are drawn more often (docs/rules.md).
FAMILY_WEIGHTS = {
    "mutate": 5.0,
    PROPOSED: 4.0,
    "identity": 2.0,
    "fusion": 1.5,
    "layout": 2.0,
    "reduce": 0.7,
    "dtype": 0.7,
}


def draw_recipe(
    bench: Workbench,
    rules: Registry,
    rng: random.Random,
    avoid: Collection[str] = (),
    favour: Collection[str] = (),
) -> Recipe:
    """Apply random rewrites to the bench; the recipe is what took.  Raises :class:`Unsound`.

    Of the rules in ``favour`` one is tried first in every other draw.
    """
    pool = [r for r in rules if r.id not in avoid]
    wanted = rng.choices(LENGTHS, LENGTH_WEIGHTS)[0]
    original = set(bench.nodes)
    for _ in range(4 * wanted):
        if len(bench.applied) >= wanted:
            break
        here = {op.name for op in bench.ops.values()}
        families: dict[str, list[Rule]] = {}
        for rule in pool:
            if rule.site != "op" or root_operation(rule) in here:
                families.setdefault(rule.family, []).append(rule)
        names = sorted(families)
        family = rng.choices(names, [FAMILY_WEIGHTS.get(f, 1.0) for f in names])[0]
        chosen = rng.sample(families[family], min(len(families[family]), 8))
        if favour and rng.random() < 0.5:
            liked = [r for f in names for r in families[f] if r.id in favour]
            chosen = [*rng.sample(liked, min(len(liked), 2)), *chosen]
        for rule in chosen:
            if _try_rule(bench, rule, rng):
                if rule.site == "value" and rng.random() < CHASE_SHARE:
                    _chase(bench, [r for r in pool if r.site == "late"], rng)
                break
    made = [n.name for n in calls(bench.graph) if n.name not in original and n in bench.profile.specs]
    if bench.applied and made and rng.random() < EXPOSE_SHARE:
        for name in rng.sample(made, min(len(made), rng.randint(1, 2))):
            try:
                bench.expose(Rewrite(EXPOSE, name))
            except Inapplicable:
                continue
    return Recipe(tuple(bench.applied))


def _chase(bench: Workbench, late: list[Rule], rng: random.Random) -> None:
    """Write to the memory that the last rewrite copied or viewed, at some later point."""
    site = bench.applied[-1].site
    for rule in rng.sample(late, min(len(late), 4)):
        if _try_rule(bench, rule, rng, site):
            return


def root_operation(rule: Rule) -> str:
    """Canonical name of the last operation of a rule's pattern; "" where it has none."""
    pattern = pattern_of(rule)
    return pattern.operations[pattern.root].name if pattern else ""


#: How often one step of a chain is tried, each time at another random site.
CHAIN_TRIES = 4


def draw_chain(bench: Workbench, rules: Registry, chain: Sequence[str], rng: random.Random) -> list[str]:
    """Apply rules in the order of ``chain``, each at a random site that takes it; the steps that none took.

    A step is the id of a rule, or a glob over ids, with choices of its scalars: ``reduce_split{k=2}``.
    Raises :class:`Unsound`, and ``RuleError`` for a step that names no rule.
    """
    missed = []
    for step in chain:
        found, choices = chain_step(rules, step)
        tries = [rule for rule in rng.sample(found, min(len(found), 8)) for _ in range(CHAIN_TRIES)]
        if not any(_try_rule(bench, rule, rng, given=choices) for rule in tries):
            missed.append(step)
    return missed


def chain_step(rules: Registry, step: str) -> tuple[list[Rule], dict[str, Any]]:
    """The rules that a step of a chain names, and the choices that it makes; raises ``RuleError``."""
    name, _, rest = step.partition("{")
    try:
        choices = dict(Rewrite.parse(f"x{{{rest}@x").choices) if rest else {}
    except (ValueError, SyntaxError) as error:
        raise RuleError(f"step {step!r} of a chain: {error}") from None
    found = [r for r in rules if fnmatchcase(r.id, name) or fnmatchcase(r.id, f"{PROPOSED}_{name}")]
    if not found:
        raise RuleError(f"step {step!r} of a chain: no rule {name!r}")
    return found, choices


def _try_rule(
    bench: Workbench, rule: Rule, rng: random.Random, site: str = "", given: Mapping[str, Any] | None = None
) -> bool:
    """Apply the rule at a random site, or at ``site``; False where it has none or none took.

    ``given`` are scalars that are not drawn.
    """
    found = [(n, m) for n, m in bench.sites(rule) if not site or n.name == site]
    if not found:
        return False
    node, match = rng.choice(found)
    at = ""
    if rule.site == "late":
        points = bench.late_points(rule, node)
        if not points:
            return False
        at = rng.choice(points).name
    elif rule.site == "value":
        users = [u.name for u in node.users if u.op != "output"]
        if len(node.users) > 1 and users and rng.random() < 0.5:
            at = rng.choice(users)
    drawn = {n: rng.choice(c) for n, c in sorted(rule.scalars.items()) if c is not None}
    choices = tuple((n, (given or {}).get(n, v)) for n, v in drawn.items())
    try:
        bench.apply(rule, Rewrite(rule.id, node.name, at, choices), match)
    except Inapplicable:
        return False
    return True


def replay_recipe(bench: Workbench, rules: Registry, recipe: Recipe) -> None:
    """Apply a recipe exactly; raises :class:`Inapplicable`, :class:`Unsound` or ``RuleError``."""
    for rewrite in recipe.rewrites:
        if rewrite.rule == EXPOSE:
            bench.expose(rewrite)
        else:
            bench.apply(rules[rewrite.rule], rewrite)
