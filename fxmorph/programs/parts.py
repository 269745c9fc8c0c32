"""The modules that run when a model runs: which there are, and how errors grow from one to the next."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from typing import Any

import torch

from fxmorph.core.model_parts import Errors, Part
from fxmorph.programs.load import Invocation, LoadedSeed
from fxmorph.torchapi.devices import seed_generators
from fxmorph.torchapi.dispatch import tensors_of

#: Of a part's results so many elements are kept to be compared.
KEPT = 4096


def called_parts(made: Invocation) -> list[Part]:
    """The modules that a model calls, in the order of their first calls, the model first; runs it in eager."""
    found: dict[str, Part] = {}
    around: list[str] = []

    def entered(name: str) -> Callable[..., None]:
        def hook(module: torch.nn.Module, args: Any, kwargs: dict[str, Any]) -> None:
            within = around[-1] if around else ""
            found.setdefault(name, Part(name, type(module).__name__, within, tuple(kwargs)))
            around.append(name)

        return hook

    def left(*_: Any) -> None:
        around.pop()

    with ExitStack() as hooks:
        for name, module in made.fn.named_modules():  # type: ignore[attr-defined]
            hooks.callback(module.register_forward_pre_hook(entered(name), with_kwargs=True).remove)
            hooks.callback(module.register_forward_hook(left, always_call=True).remove)
        made.drive(made.fn)
    return list(found.values())


def error_growth(loaded: LoadedSeed, names: Sequence[str], input_seed: int = 0) -> Iterator[Errors]:
    """Of each named part, in a run of the whole model in which these parts are compiled one by one.

    Random numbers are drawn as in eager.  Raises what the model raises in eager.
    """
    in_fp64 = replace(loaded, dtype="float64")
    kept = [
        _results(seed, names, input_seed, compiled)
        for seed, compiled in ((in_fp64, False), (loaded, False), (loaded, True))
    ]
    for name in names:
        reference, eager, compiled = (results.get(name) for results in kept)
        if reference is None:
            yield Errors(name, 0.0, 0.0)
        else:
            yield Errors(name, _off(eager, reference), _off(compiled, reference))


def _off(got: torch.Tensor | None, reference: torch.Tensor) -> float:
    if got is None or got.shape != reference.shape:
        return float("nan")
    largest = reference.abs().max().item()
    return (got - reference).abs().max().item() / (largest or 1.0)


def _results(loaded: LoadedSeed, names: Sequence[str], input_seed: int, compiled: bool) -> dict[str, torch.Tensor]:
    """Some numbers of what each part gives first."""
    made = loaded.fresh(input_seed)
    kept: dict[str, torch.Tensor] = {}
    with ExitStack() as hooks, torch.no_grad():
        for name in names:
            module: Any = made.fn.get_submodule(name)  # type: ignore[attr-defined]
            if compiled:  # its hooks stay outside of what is compiled
                module.forward = torch.compile(module.forward, options={"fallback_random": True})
            hooks.enter_context(_keeping(module, name, kept))
        seed_generators(input_seed)
        # What comes after a part that does not compile is not reached.
        with suppress(Exception) if compiled else nullcontext():
            made.drive(made.fn)
    return kept


@contextmanager
def _keeping(module: torch.nn.Module, name: str, kept: dict[str, torch.Tensor]) -> Iterator[None]:
    def hook(module: torch.nn.Module, args: Any, out: Any) -> None:
        floats = [t for t in tensors_of(out) if t.is_floating_point() and t.numel()]
        if floats and name not in kept:
            flat = floats[0].detach().reshape(-1)
            kept[name] = flat[:: max(1, len(flat) // KEPT)].double()

    handle = module.register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()
