"""What one seed reaches, in one run in eager and one compile: the features that corpora are measured by."""

from __future__ import annotations

import time
from typing import Any

import torch

from fxmorph.core.features import Reach
from fxmorph.model import RNG_SEED, CompileConfig, Kernels, Seed
from fxmorph.programs.capture import CaptureFailed, capture_torch, send_back
from fxmorph.programs.graph import Unprintable
from fxmorph.programs.inputs import Unsupported
from fxmorph.programs.load import Invocation, LoadedSeed, load_seed
from fxmorph.programs.modes import modes_restored
from fxmorph.programs.same_graphs import hash_of_test
from fxmorph.torchapi.compiling import compile_callable, configured, no_interpreter, reset, spoken, toolchain_trouble
from fxmorph.torchapi.devices import seed_generators
from fxmorph.torchapi.dispatch import DispatchMode, watched
from fxmorph.torchapi.firing import noting
from fxmorph.torchapi.new_memory import garbage_in_new_memory
from fxmorph.torchapi.torch_functions import FunctionsCalled, aten_overloads


class NotMeasured(Exception):
    """What the seed reaches is not known; the message says why, ``elsewhere`` whether another machine would know."""

    def __init__(self, reason: str, elsewhere: bool = False) -> None:
        super().__init__(reason)
        self.elsewhere = elsewhere


class _Dispatched(DispatchMode):
    """Notes the operators that are dispatched, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def called(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self.names.append(str(func))
        return func(*args, **kwargs)


def reach_of(seed: Seed) -> Reach:
    """What the seed reaches on the CPU, on its own values; unit gradients are sent back.

    Kernels are interpreted, where this torch can: no C++ compiler runs.  Raises ``SeedFailed`` and
    :class:`NotMeasured`.
    """
    started = time.process_time()
    with modes_restored(), garbage_in_new_memory():
        loaded = load_seed(seed)
        if loaded.meta.get("device") == "cuda":
            raise NotMeasured("it is for a CUDA device, and what seeds reach is measured on the CPU", elsewhere=True)
        apis, dispatched = _in_eager(loaded)
        units = _compiled(loaded)
        graphs = _graphs(loaded, dispatched)
    overloads = aten_overloads().intersection(dispatched)
    seconds = round(time.process_time() - started, 3)
    return Reach(seed.hash, tuple(sorted(apis)), tuple(sorted(overloads)), tuple(sorted(units)), graphs, seconds)


def _in_eager(loaded: LoadedSeed) -> tuple[set[str], list[str]]:
    """Functions of torch that the program calls, and all operators that are dispatched."""
    functions, operators = FunctionsCalled(), _Dispatched()
    made = loaded.fresh()
    try:
        with watched(operators):
            with functions:
                out = _driven(made, made.fn, loaded)
            send_back(out)
    except Exception as error:
        if not loaded.meta.get("raises"):
            raise NotMeasured(f"eager raises {spoken(error)}") from error
    return functions.names, operators.names


def _driven(made: Invocation, fn: Any, loaded: LoadedSeed) -> Any:
    seed_generators(RNG_SEED)
    with torch.set_grad_enabled(not loaded.no_grad):
        return made.drive(fn)


def _config(loaded: LoadedSeed) -> CompileConfig:
    kernels = Kernels.GENERATED if no_interpreter() else Kernels.CPP
    return loaded.config(CompileConfig.make(kernels=kernels))


def _compiled(loaded: LoadedSeed) -> set[str]:
    """Units of Inductor that the compile makes use of; where it raises, as far as it goes."""
    fired: set[str] = set()
    config = _config(loaded)
    made = loaded.fresh()
    try:
        with configured(config), noting(fired):
            send_back(_driven(made, compile_callable(made.fn, config), loaded))
    except Exception as error:
        if trouble := toolchain_trouble(error):
            raise NotMeasured(trouble, elsewhere=True) from error
    finally:
        reset()
    return fired


def _graphs(loaded: LoadedSeed, dispatched: list[str]) -> str:
    """:func:`hash_of_test`, "" where the program has no graphs with a text form."""
    try:
        return hash_of_test(capture_torch(loaded.fresh(), _config(loaded), loaded.no_grad), dispatched, loaded.meta)
    except (CaptureFailed, Unprintable, Unsupported):
        return ""
