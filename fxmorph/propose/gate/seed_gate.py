"""The gate for seeds: builds, runs alike twice in eager, is one graph to Dynamo, is new."""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch
from torch import fx

from fxmorph.model import CompileConfig, digest
from fxmorph.programs.bits import same_bits
from fxmorph.programs.capture import Captured, CaptureFailed, capture_torch
from fxmorph.programs.graph import Unprintable, function_of, print_graph
from fxmorph.programs.inputs import InputSet
from fxmorph.programs.inputs import Unsupported as UnsupportedInput
from fxmorph.programs.load import Invocation
from fxmorph.programs.observe import loss_of
from fxmorph.propose.gate.decision import Said, error_line
from fxmorph.propose.gate.seed_file import make_inputs, meta_of, record, seed_text
from fxmorph.propose.gate.seed_settings import allowed_settings
from fxmorph.propose.gate.sources import CorpusGraphs, program_key
from fxmorph.propose.gate.usefulness import fired_by
from fxmorph.propose.proposal import Judged, Malformed, Outcome, SeedProposal, Task, Unsupported
from fxmorph.torchapi.compiling import check_settings, configured
from fxmorph.torchapi.devices import seed_generators
from fxmorph.torchapi.dispatch import tree_leaves

#: CPU seconds that the program may take in eager.
EAGER_SECONDS = 5.0


def judge_seed(proposal: SeedProposal, source: str, corpus: CorpusGraphs) -> Judged:
    """The outcome of a seed proposal; never raises for what a proposal can do."""
    judged = Said(proposal, Task.SEED, source)
    try:
        config = CompileConfig.make(inductor=allowed_settings(proposal.inductor))
        check_settings(config)
        seed_generators(0)
        frozen = InputSet.snapshot(make_inputs(proposal))
        graph = record(proposal, frozen.rebuild())
        seed_text(graph, frozen.rebuild(), meta_of(proposal), proposal.doc, "")
    except (Unsupported, Unprintable, UnsupportedInput) as error:
        return judged(Outcome.UNSUPPORTED, reason=str(error))
    except Exception as error:
        said = "" if isinstance(error, Malformed) else "does not run: "
        return judged(Outcome.MALFORMED, reason=f"{said}{error_line(error)}")
    trouble = runs_alike(graph, frozen, proposal.no_grad)
    if trouble:
        return judged(Outcome.REFUTED, counterexample=trouble, reason="eager")
    return _captured(graph, frozen, config, proposal.no_grad, corpus, judged)


def _captured(
    graph: fx.Graph, frozen: InputSet, config: CompileConfig, no_grad: bool, corpus: CorpusGraphs, judged: Said
) -> Judged:
    fn, args = function_of(print_graph(graph)), frozen.rebuild()
    try:
        graphs = capture_torch(Invocation(fn, args, lambda g: g(*args)), config, no_grad)
    except CaptureFailed as error:
        return judged(Outcome.UNSUPPORTED, reason=f"capture: {error}")
    if len(graphs) != 1:
        return judged(Outcome.UNSUPPORTED, reason=f"Dynamo makes {len(graphs)} graphs of it")
    key = key_of(graphs[0], config)
    same = corpus.named(key)
    if same:
        return judged(Outcome.DUPLICATE, reason=f"same as {same}", same_as=same)
    return judged(Outcome.ADMITTED, key=key, fires=fired_by(graph, frozen, config, no_grad))


def key_of(captured: Captured, config: CompileConfig) -> str:
    """What two seeds that are the same share: graph, inputs and settings."""
    try:
        return digest([program_key(captured), config.inductor])
    except Unprintable:
        return ""


def runs_alike(graph: fx.Graph, frozen: InputSet, no_grad: bool) -> str:
    """Why two runs in eager are not the same or do not end well, or ""."""
    started = time.process_time()
    try:
        first, second = (_run(graph, frozen, no_grad) for _ in range(2))
    except Exception as error:
        return error_line(error)
    if time.process_time() - started > 2 * EAGER_SECONDS:
        return f"eager takes more than {EAGER_SECONDS:.0f} CPU seconds"
    alike = len(first) == len(second) and all(same_bits(a, b) for a, b in zip(first, second, strict=True))
    return "" if alike else "two runs in eager give different values"


def _run(graph: fx.Graph, frozen: InputSet, no_grad: bool) -> Sequence[torch.Tensor]:
    """What a run returns, leaves in its inputs and gives as gradients."""
    args = frozen.rebuild()
    seed_generators(2)
    with torch.set_grad_enabled(not no_grad), configured(CompileConfig()):
        out = fx.Interpreter(fx.GraphModule(torch.nn.Module(), graph)).run(*args)
    returned = [t for t in tree_leaves(out) if isinstance(t, torch.Tensor)]
    loss = None if no_grad else loss_of(returned, exact=False)
    if loss is not None and loss.requires_grad:
        loss.backward()
    tensors = [t for t in args if isinstance(t, torch.Tensor)]
    grads = [t.grad for t in tensors if t.is_leaf and t.grad is not None]
    return [t.detach() for t in (*returned, *tensors, *grads)]
