"""A seed as a callable with fresh inputs, in a worker process.

Every call of :meth:`LoadedSeed.fresh` builds inputs, parameters and the callable anew, with
the random generator seeded the same way, so that no run sees what another one wrote.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from fxmorph.core.loose_files import module_of
from fxmorph.core.operator_seeds import OperatorProgram
from fxmorph.model import Case, CompileConfig, Seed
from fxmorph.programs.contents import look_into
from fxmorph.programs.fewer_results import returning
from fxmorph.programs.given_memory import GivenMemory
from fxmorph.programs.inputs import relocate
from fxmorph.programs.layouts import layout_of, relaid
from fxmorph.programs.meta import MetaError, read_meta
from fxmorph.programs.modes import modes_restored
from fxmorph.programs.sizes import Reshaping, reshapings
from fxmorph.torchapi.devices import out_of_memory, seed_generators
from fxmorph.torchapi.dispatch import noting_shared_operands, tensors_of, tree_leaves
from fxmorph.torchapi.libraries import forget, noting_libraries, overrides

#: How the names of modules begin that seeds are loaded as.
SEED_MODULE = "_fxmorph_seed_"


@dataclass(frozen=True)
class _Registering:
    """A seed's module that registered operators: importing it once more would register them twice."""

    content: bytes
    module: ModuleType
    libraries: list[torch.library.Library]


#: Those by path.
_REGISTERING: dict[str, _Registering] = {}


class SeedFailed(Exception):
    """The seed itself does not load or does not make its inputs; the message says why."""


@dataclass
class Invocation:
    """One fresh program: ``drive(wrap(fn))`` runs it.

    ``args`` are what ``fn`` is called with, ``state`` the parameters and buffers of ``fn`` by
    name.  Nothing is shared with another invocation.
    """

    fn: Callable[..., Any]
    args: list[Any]
    drive: Callable[[Callable[..., Any]], Any]
    state: dict[str, torch.Tensor] = field(default_factory=dict)
    #: Whether ``drive`` may hold ``fn`` or its parameters by itself: an optimizer of the seed's module may.
    bound: bool = False

    @property
    def tensors(self) -> list[torch.Tensor]:
        """Those among the arguments and in objects there, then those of the state."""
        return [*_tensors_given(self.args), *self.state.values()]


def state_of(fn: Callable[..., Any]) -> dict[str, torch.Tensor]:
    """Parameters and buffers by name; none of what is not a module."""
    return {**dict(fn.named_parameters()), **dict(fn.named_buffers())} if isinstance(fn, torch.nn.Module) else {}


@dataclass
class LoadedSeed:
    """A seed whose module has been imported; ``meta`` holds only the keys that are read."""

    seed: Seed
    meta: dict[str, Any]
    make: Callable[[], tuple[Callable[..., Any], list[Any]]]
    driver: Callable[..., Any] | None = None
    device: str = "cpu"
    dtype: str = ""
    context: str = ""
    #: The change of the inputs' shapes that eager accepts, where the case asks for one.
    reshaped: Reshaping | None = None
    #: What another layout of the inputs is drawn from, whether they get it, which of them the program writes, and
    #: whether each has to keep memory of its own.
    layout: str = ""
    relaid: bool = False
    written: frozenset[int] = frozenset()
    apart: bool = False
    #: Whether it keeps state outside of what is made for one run: its module is executed anew for each.
    reloads: bool = False
    #: What runs were given, and whether its module is executed anew for each since it gave one of them the memory of
    #: another.
    given: GivenMemory = field(default_factory=GivenMemory)
    gives_again: bool = False

    @property
    def executed_anew(self) -> bool:
        """Whether its module is, for each run."""
        return self.reloads or self.gives_again

    @property
    def no_grad(self) -> bool:
        return bool(self.meta.get("no_grad")) or self.context == "inference"

    def config(self, base: CompileConfig) -> CompileConfig:
        """``base`` with what the seed's META asks for under it."""
        return CompileConfig.make(
            base.backend,
            {**self.meta.get("compile", {}), **dict(base.options)},
            {**self.meta.get("config", {}), **dict(base.inductor)},
            {**self.meta.get("dynamo_config", {}), **dict(base.dynamo)},
            int(self.meta.get("threads", base.threads)),
            base.kernels,
        )

    def fresh(self, input_seed: int = 0, change: Callable[[list[Any]], list[Any]] | None = None) -> Invocation:
        """Inputs are drawn under RNG seed ``input_seed``; raises :class:`SeedFailed`.

        ``change`` makes other arguments of those that the seed gives; what it raises passes through.
        """
        try:
            source, fn, args = self._made(input_seed)
            dtype = getattr(torch, self.dtype) if self.dtype else None
            if self.device != "cpu" or dtype is not None:
                args = relocate(args, self.device, dtype)
                fn = fn.to(self.device, dtype) if isinstance(fn, torch.nn.Module) else fn
            args = args if self.reshaped is None else self.reshaped.of(args)
            args = relaid(args, random.Random(self.layout), self.written, self.apart) if self.relaid else args
        except SeedFailed:
            raise
        except Exception as error:
            short = "out of memory where its inputs are made: " if out_of_memory(error) else ""
            raise SeedFailed(f"{short}{type(error).__name__}: {error}") from error
        if self.driver is None:
            _require_arguments(fn, args)
        args = args if change is None else change(args)
        driver, calls = source.driver, int(self.meta.get("calls", 1))

        def drive(g: Callable[..., Any]) -> Any:
            if driver is not None:
                return driver(g, *args)
            for _ in range(calls):
                out = g(*args)
            return out

        return Invocation(fn, args, drive, state_of(fn), driver is not None and source is not self)

    def returning(self, places: frozenset[int], input_seed: int) -> LoadedSeed | None:
        """The seed with None for all of its program's results but some; None unless it is one call of a function that
        is made here.
        """
        if self.driver is not None or self.executed_anew or int(self.meta.get("calls", 1)) > 1:
            return None
        seed_generators(input_seed)
        if isinstance(self.make()[0], torch.nn.Module):
            return None
        narrowed: dict[Callable[..., Any], Callable[..., Any]] = {}  # another one would be compiled anew

        def make() -> tuple[Callable[..., Any], list[Any]]:
            fn, args = self.make()
            if fn not in narrowed:
                narrowed[fn] = returning(fn, places, lambda: self.make()[1])
            return narrowed[fn], args

        return replace(self, make=make)

    def _made(self, input_seed: int) -> tuple[LoadedSeed, Callable[..., Any], list[Any]]:
        """A program with its inputs, and what made them: the seed, or the seed loaded anew."""
        if not self.executed_anew:
            seed_generators(input_seed)
            fn, args = self.make()
            if not self.given.again((*_tensors_given(args), *state_of(fn).values())):
                return self, fn, args
            self.gives_again = True
        source = _LOADERS[self.seed.form](self.seed)
        seed_generators(input_seed)
        return source, *source.make()


def _tensors_given(args: list[Any]) -> list[torch.Tensor]:
    """Those among the arguments and in objects there."""
    return [*look_into((f"arg{i}", value) for i, value in enumerate(tree_leaves(args))).tensors.values()]


def _require_arguments(fn: Callable[..., Any], args: list[Any]) -> None:
    """Raises :class:`SeedFailed` where ``fn`` cannot be called with so many arguments, in eager or compiled.

    That says nothing of the compiler: both raise, which would pass for agreement.
    """
    called = fn.forward if isinstance(fn, torch.nn.Module) else fn
    try:
        signature = inspect.signature(called)
    except (TypeError, ValueError):  # of a builtin nothing is known
        return
    try:
        signature.bind(*args)
    except TypeError as error:
        raise SeedFailed(f"the program does not take its inputs: {error}") from None


def in_other_layout(loaded: LoadedSeed, input_seed: int) -> LoadedSeed | None:
    """The seed with inputs of another layout; None where it is the same one, or eager does not accept it.

    Inputs stay apart where control flow would be given operands that share memory: eager takes them, and tracing
    refuses them by design (limitations of ``torch.cond``).
    """
    try:
        made = loaded.fresh(input_seed)
        tensors = tensors_of(made.args)
        before = [t._version for t in tensors]
        own_layout = layout_of(made.args)
        shares = _shares_operands(made)
        written = frozenset(k for k, t in enumerate(tensors) if t._version != before[k])
        for apart in (False, True):
            other = replace(loaded, relaid=True, written=written, apart=apart)
            changed = other.fresh(input_seed)
            if layout_of(changed.args) == own_layout:
                return None
            if not _shares_operands(changed) or shares:  # what eager does not take raises here
                return other
    except Exception:  # a view of what was contiguous, mostly
        return None
    return None


def _shares_operands(made: Invocation) -> bool:
    """Whether control flow is given operands that share memory where the program runs in eager."""
    with torch.no_grad(), noting_shared_operands() as shared:
        made.drive(made.fn)
    return bool(shared)


def in_other_shape(loaded: LoadedSeed, kind: str, input_seed: int, rng: random.Random) -> LoadedSeed | None:
    """The seed with inputs of other shapes, ``kind`` of RESHAPES; None where eager accepts none."""
    for change in reshapings(kind, loaded.fresh(input_seed).args, rng):
        other = replace(loaded, reshaped=change)
        with contextlib.suppress(Exception), torch.no_grad():
            made = other.fresh(input_seed)
            made.drive(made.fn)
            return other
    return None


def mixes_dtypes(loaded: LoadedSeed, input_seed: int) -> bool:
    """Whether eager refuses nothing but the mix of floating-point dtypes: with one of them the program runs.

    That compiled code refuses it too is worth a test: promoting instead is a known way to be wrong.
    """
    try:
        floats = {t.dtype for t in loaded.fresh(input_seed).tensors if t.is_floating_point()}
        if loaded.dtype or len(floats) < 2:
            return False
        made = replace(loaded, dtype="float64").fresh(input_seed)
        with torch.no_grad():
            made.drive(made.fn)
    except Exception:
        return False
    return True


@contextlib.contextmanager
def staged(case: Case) -> Iterator[LoadedSeed]:
    """The case's seed, and what everything about the case runs in: its threads, and autocast where it says so.

    Raises :class:`SeedFailed` with one line.
    """
    before = torch.get_num_threads()
    autocast = torch.autocast(case.device, torch.bfloat16) if case.context == "autocast" else contextlib.nullcontext()
    try:
        with modes_restored(), autocast:
            loaded = load_case(case)
            torch.set_num_threads(loaded.config(case.compile).threads)
            yield loaded
    finally:
        torch.set_num_threads(before)


def load_case(case: Case) -> LoadedSeed:
    """The case's seed, to be run as the case says; raises :class:`SeedFailed` with one line."""
    loaded = load_seed(case.seed, case.device, case.dtype, case.context)
    loaded.layout = f"layout {case.campaign_seed} {case.seed.hash} {case.number}"
    # Where shapes are dynamic, other sizes are judged on the one compile.
    if case.reshaped and not dict(loaded.config(case.compile).options).get("dynamic"):
        rng = random.Random(f"shape {case.campaign_seed} {case.seed.hash} {case.number}")
        loaded = in_other_shape(loaded, case.reshaped, case.input_seed, rng) or loaded
    return (in_other_layout(loaded, case.input_seed) or loaded) if case.relaid else loaded


def load_seed(seed: Seed, device: str = "cpu", dtype: str = "", context: str = "") -> LoadedSeed:
    """Import a seed; raises :class:`SeedFailed` with one line."""
    try:
        loaded = _LOADERS[seed.form](seed)
        loaded.device, loaded.dtype, loaded.context = device, dtype, context
        return loaded
    except SeedFailed:
        raise
    except Exception as error:
        raise SeedFailed(f"{type(error).__name__}: {error}") from error


def _import(path: str) -> ModuleType:
    """The seed's module, made anew unless it registers operators; those of other seeds stay, but for what clashes."""
    file = Path(path).resolve()
    content, held = file.read_bytes(), _REGISTERING.get(str(file))
    if held is not None and held.content == content:
        return held.module
    for other in [p for p, seed in _REGISTERING.items() if any(map(overrides, seed.libraries))]:
        _forget(other)

    def take(namespace: str) -> None:
        for other in [p for p, seed in _REGISTERING.items() if any(lib.ns == namespace for lib in seed.libraries)]:
            _forget(other)

    with noting_libraries(take) as libraries:
        try:
            module = _executed(path)
        except BaseException:
            forget(libraries)
            raise
    if libraries:
        _REGISTERING[str(file)] = _Registering(content, module, libraries)
    return module


def _forget(path: str) -> None:
    forget(_REGISTERING.pop(path).libraries)


def _executed(path: str) -> ModuleType:
    name = f"{SEED_MODULE}{Path(path).stem}"
    seed_generators(0)  # its module may draw tensors, and those are the same wherever it is loaded
    folder = str(Path(path).resolve().parent)
    sys.path.insert(0, folder)
    try:
        return module_of(name, path)
    finally:
        sys.path.remove(folder)


def _meta(module: ModuleType) -> dict[str, Any]:
    try:
        return read_meta(getattr(module, "META", {}))
    except MetaError as error:
        raise SeedFailed(str(error)) from None


def _inputs(make_inputs: Callable[[], Any]) -> list[Any]:
    made = make_inputs()
    if not isinstance(made, (list, tuple)):
        raise SeedFailed(f"make_inputs() returns a {type(made).__name__}, want a list or tuple of arguments")
    return list(made)


def _module(seed: Seed) -> LoadedSeed:
    module = _import(seed.path)

    def make() -> tuple[Callable[..., Any], list[Any]]:
        args = _inputs(module.make_inputs)
        seed_generators(1)
        if hasattr(module, "make_fn"):
            return module.make_fn(), args
        # What drives a model may hold its parameters: an optimizer of the module's.
        copied = isinstance(module.fn, torch.nn.Module) and driver is None
        return (copy.deepcopy(module.fn) if copied else module.fn), args

    driver = getattr(module, "drive", None)
    return LoadedSeed(seed, _meta(module), make, driver)


def _class(seed: Seed) -> LoadedSeed:
    module = _import(seed.path)
    factory = getattr(module, seed.name)
    inputs = getattr(factory, "make_inputs", None) or getattr(module, "make_inputs", None)
    if inputs is None:
        raise SeedFailed(f"no inputs: define make_inputs() in {Path(seed.path).name} or on {seed.name}")

    def make() -> tuple[Callable[..., Any], list[Any]]:
        args = _inputs(inputs)
        seed_generators(1)
        fn = factory()
        if isinstance(fn, torch.nn.Module):
            fn.train(seed.mode == "train")
        return fn, args

    return LoadedSeed(seed, {**_meta(module), "no_grad": seed.mode == "eval"}, make)


class _Positional(torch.nn.Module):
    """A program whose last arguments, given by position, are the keyword arguments ``names`` of ``program``."""

    def __init__(self, program: torch.nn.Module, names: tuple[str, ...]) -> None:
        super().__init__()
        self.program, self.names = program, names

    def forward(self, *args: Any) -> Any:
        first = len(args) - len(self.names)
        return self.program(*args[:first], **dict(zip(self.names, args[first:], strict=True)))


def _pt2(seed: Seed) -> LoadedSeed:
    exported = torch.export.load(seed.path)
    example = exported.example_inputs
    if example is None:
        raise SeedFailed("the exported program holds no example inputs")
    args, kwargs = example

    def make() -> tuple[Callable[..., Any], list[Any]]:
        module = copy.deepcopy(exported).module()
        given = copy.deepcopy([*args, *kwargs.values()])
        return (_Positional(module, tuple(kwargs)) if kwargs else module), given

    return LoadedSeed(seed, {"no_grad": True}, make)


class _Reader:
    """Stands in for the reader that ``load_args`` of an ``fx_graph_runnable`` script expects."""

    def __init__(self) -> None:
        self.args: list[Any] = []

    def storage(self, storage_hash: str | None, nbytes: int, *, device: Any = None, dtype_hint: Any = None) -> Any:
        return {"nbytes": nbytes, "device": device or "cpu", "made": {}}

    def tensor(
        self,
        storage: dict[str, Any],
        shape: tuple[int, ...],
        stride: tuple[int, ...] | None = None,
        *,
        storage_offset: int | None = None,
        dtype: torch.dtype | None = None,
        requires_grad: bool = False,
        is_leaf: bool | None = None,
        **_: Any,
    ) -> torch.Tensor:
        dtype = dtype or torch.float32
        if dtype not in storage["made"]:
            n = storage["nbytes"] // torch.empty(0, dtype=dtype).element_size()
            flat = torch.randn(n).to(dtype) if dtype.is_floating_point else torch.zeros(n, dtype=dtype)
            flat = torch.randn(n, dtype=dtype) if dtype.is_complex else flat
            storage["made"][dtype] = flat.to(storage["device"])
        flat = storage["made"][dtype]
        stride = tuple(stride) if stride is not None else torch.empty(shape, device="meta").stride()
        t = flat.as_strided(shape, stride, storage_offset or 0)
        self.args.append(t.detach().requires_grad_(requires_grad) if dtype.is_floating_point else t)
        return self.args[-1]

    def symint(self, value: Any) -> Any:
        self.args.append(value)
        return value

    const = symint


class _Devices:
    """Stands in for the same reader, makes nothing, and notes the kinds of device that are asked for."""

    def __init__(self) -> None:
        self.kinds: set[str] = set()

    def storage(self, *_: Any, device: Any = None, **__: Any) -> None:
        self.kinds.add(torch.device(device or "cpu").type)

    def tensor(self, *_: Any, **__: Any) -> None:
        pass

    symint = const = tensor


def _runnable(seed: Seed) -> LoadedSeed:
    module = _import(seed.path)
    devices = _Devices()
    module.load_args(devices)

    def make() -> tuple[Callable[..., Any], list[Any]]:
        reader = _Reader()
        module.load_args(reader)
        fn = module.mod if hasattr(module, "mod") else module.Repro()
        return copy.deepcopy(fn), reader.args

    return LoadedSeed(seed, {"no_grad": True, **({"device": "cuda"} if "cuda" in devices.kinds else {})}, make)


def _operator(seed: Seed) -> LoadedSeed:
    from fxmorph.torchapi.operator_programs import operator_program  # torch's tests take seconds to import

    program = OperatorProgram.of(seed)
    meta = {} if program.setting.differentiated else {"no_grad": True}
    return LoadedSeed(seed, meta, operator_program(program))


_LOADERS = {"module": _module, "class": _class, "pt2": _pt2, "runnable": _runnable, "operator": _operator}
