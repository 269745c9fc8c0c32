"""A graph under rewriting: sites, applying rules there, and checking what comes of it.

A graph is profiled by running it once on its own inputs: that gives each node's shape,
dtype, strides and value, which nodes share memory, and who writes to memory when.  A rule
that may change what aliases what is applied only where the memory involved is not written
later, so that a recipe preserves meaning by construction; each application is checked on
the real values of its site against the rule's claim.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any, Protocol

import torch
from torch import fx

from fxmorph.core.clock import Clock
from fxmorph.core.said import said
from fxmorph.model import Level, Proof, Rewrite, RewriteProof
from fxmorph.programs.canon import canonical
from fxmorph.programs.graph import calls, copy_graph, print_graph
from fxmorph.programs.inputs import InputSet, strided_clone
from fxmorph.programs.profile import GraphTooLarge, profile
from fxmorph.rewriting.claims import Inapplicable, Unsound, check_claim
from fxmorph.rewriting.instances import Instance, broken, holds
from fxmorph.rewriting.matching import Match, literals_agree, match_at, pattern_of
from fxmorph.rewriting.tracing import TracingError, trace
from fxmorph.rules import PRESERVABLE, PROPOSED, Rule
from fxmorph.torchapi.devices import out_of_memory

#: The built-in rewrite that returns a value of the program as one more output.  What was
#: there stays; what the compiler may alias, reuse or drop shows.
EXPOSE = "expose"


class SiteProof(Protocol):
    """What a prover has of an instance: the proof, what refutes it, and the key that it is kept under."""

    @property
    def proof(self) -> Proof: ...
    @property
    def counterexample(self) -> object: ...
    @property
    def key(self) -> str: ...


class SiteProver(Protocol):
    """Who proves rewrites for the arguments of their sites (``prove/prover.py``)."""

    def proved(self, instance: Instance) -> tuple[SiteProof, bool]:
        """What is shown, and whether it was known already."""
        ...


class Workbench:
    """A graph under rewriting, its inputs, and its profile, kept in step.

    With a ``prover`` each rewrite is proved for the arguments of its site.
    """

    def __init__(
        self, graph: fx.Graph, inputs: InputSet, no_grad: bool, prover: SiteProver | None = None,
        clock: Clock | None = None,
    ) -> None:  # fmt: skip
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
            try:
                self.profile = profile(self.graph, self.inputs, backward and not self.no_grad)
            except GraphTooLarge as error:
                raise Inapplicable(str(error)) from error
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
                found = match_at(pattern, node, self.ops)
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
            if "raises" not in rule.preserves or out_of_memory(error):
                raise
            self.graph = backup
            self._refresh(backward)
            raise Unsound(rewrite, f"the program then raises {said(error)}") from error

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
        return proof.level if instance.rule.claim.stronger(proof.level) else instance.rule.claim

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
            if not literals_agree(rule, match, self.ops, values):
                raise Inapplicable(f"{rule.id}: literals differ at {rewrite.site}")
        unmet = broken((*rule.assumes, *self.conditions.get(str(rewrite), ())), values)
        if unmet:
            raise Inapplicable(f"{rule.id}: values are not {unmet}")
        anchor = self._anchor(rule, rewrite, match)
        users = list(match.root.users)
        given = {n: (node, strided_clone(values[n])) for n, node in match.args.items()}
        instance = Instance(rule, values, scalars)
        if self._share_memory(match) and _writes(instance):
            raise Inapplicable(f"{rule.id} writes to arguments, two of which share memory at {rewrite.site}")
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

    def _share_memory(self, match: Match) -> bool:
        """Whether two arguments of the match, which are different nodes, lie in one memory."""
        nodes = set(match.args.values())
        held = [s for node in nodes for s in self.profile.storages[node]]
        return len(set(held)) < len(held)

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


def _writes(instance: Instance) -> bool:
    """Whether the replacement writes to what it is given."""
    given = instance.copies()
    with contextlib.suppress(Exception), torch.no_grad():  # that it raises is told elsewhere
        instance.after(given)
    return any(t._version for t in given.values())


def _require_to_run(rewrite: Rewrite, instance: Instance) -> None:
    """Run the replacement as it is on the site's values; raises :class:`Unsound` where that raises."""
    try:
        instance.after(instance.copies())
    except Exception as error:
        if out_of_memory(error):
            return
        raise Unsound(rewrite, f"after raises {said(error)}") from error
