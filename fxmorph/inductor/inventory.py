"""Every unit of the installed torch by name, and the thing of torch's that stands behind it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from fxmorph.core.units import Stage, Unit, UnitKind
from fxmorph.inductor.derive.firing_settings import settings_of
from fxmorph.torchapi.decompose import inductor_decompositions
from fxmorph.torchapi.lowerings import Lowering, lowerings
from fxmorph.torchapi.optional_passes import Extra, NoopRule, Opted, extras, noop_rules, opted
from fxmorph.torchapi.patterns import Entry, entries
from fxmorph.torchapi.pipelines import Step, steps
from fxmorph.torchapi.switching import stage_of_subsystem

#: Where a pass or an entry is defined says for which device it is, but for these.
_DEVICES = {
    "torch._inductor.fx_passes.mkldnn_fusion": "cpu",
    "torch._inductor.fx_passes.quantization": "cpu",
    "torch._inductor.fx_passes.b2b_gemm": "cuda",
    "torch._inductor.fx_passes.pad_mm": "cuda",
}
_DEVICE_OF = {
    "bmm_to_mm": "cuda",
    "move_constructors_to_cuda": "cuda",
    "linear_permute_fusion": "cuda",
    "permute_linear_fusion": "cuda",
    "permute_matmul_fusion": "cuda",
    "fuse_conv_bn": "cpu",
    "remove_identity": "cpu",
    "b2b_gemm_pass": "cuda",
    "quant_lift_up": "all",
}
#: Modules whose passes move and merge the collectives of distributed programs.
_DISTRIBUTED = tuple(
    f"torch._inductor.fx_passes.{name}"
    for name in (
        "bucketing ddp_fusion decomp_comms fsdp low_contention_collectives micro_pipeline_tp overlap_scheduling"
    ).split()
)


class UnknownUnit(Exception):
    """No unit has this name; ``near`` are names like it."""

    def __init__(self, name: str, near: tuple[str, ...]) -> None:
        hint = f"; did you mean {', '.join(near)}?" if near else " (`fxmorph passes` lists them)"
        super().__init__(f"no unit is called {name!r}{hint}")
        self.near = near


@dataclass(frozen=True)
class Decomposition:
    """One row of Inductor's decomposition table."""

    operator: Any
    function: Callable[..., Any]


@dataclass(frozen=True)
class PatternPass:
    """All entries of one pattern pass, in the order of registration."""

    entries: tuple[Entry, ...]


Handle = Step | Extra | Opted | NoopRule | PatternPass | Entry | Decomposition | Lowering


@dataclass(frozen=True)
class Listed:
    """A unit with what it is in torch; ``settings`` of Inductor's switch it on."""

    unit: Unit
    handle: Handle
    settings: dict[str, Any]


def inventory() -> tuple[Unit, ...]:
    """Every unit, ordered by stage, whole passes before their entries; the first call takes seconds."""
    return tuple(listed.unit for listed in _listed().values())


def listed(name: str) -> Listed:
    """The unit of that name; raises :class:`UnknownUnit`."""
    try:
        return _listed()[name]
    except KeyError:
        raise UnknownUnit(name, near(name)) from None


def observed_unit(subsystem: str, name: str) -> str:
    """The unit that a ``GraphTransformObserver`` or the bisector calls ``name``; "" where none is known.

    ``subsystem`` is theirs, as ``joint_graph_passes``; the list ``pass_pattern_1`` is ``pass_patterns[1]`` here.
    """
    own = f"pass_patterns[{name.removeprefix('pass_pattern_')}]" if name.startswith("pass_pattern_") else name
    unit = f"{stage_of_subsystem(subsystem)}.{own}"
    return unit if unit in _listed() else ""


def near(name: str, count: int = 3) -> tuple[str, ...]:
    """Names of units that are like ``name``: those that hold it, then those spelled almost so."""
    import difflib

    names = list(_listed())
    lower = name.lower()
    inside = [n for n in names if lower and lower in n.lower()]
    inside.sort(key=lambda n: (_listed()[n].unit.kind not in (UnitKind.PASS, UnitKind.ENTRY), len(n)))
    tails = {n.rpartition("/")[2].partition(".")[2] or n: n for n in reversed(names)}
    close = difflib.get_close_matches(name, names, count, 0.75)
    close += [tails[t] for t in difflib.get_close_matches(name, list(tails), count, 0.75)]
    return tuple(dict.fromkeys([*inside, *close]))[:count]


@functools.cache
def _listed() -> dict[str, Listed]:
    found = [*_passes(), *_decompositions(), *_lowerings()]
    order = {stage: i for i, stage in enumerate(Stage)}
    found.sort(key=lambda item: (order[item.unit.stage], item.unit.kind is UnitKind.ENTRY))
    by_name: dict[str, Listed] = {}
    for item in found:
        by_name.setdefault(item.unit.name, item)
    return by_name


def unwrapped(function: Any) -> Any:
    """The function behind partials, and behind wrappers that keep it or bear its name."""
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        else:
            inner = _namesake(function)
            if inner is None:
                return function
            function = inner


def _namesake(function: Any) -> Any:
    """What a wrapper closes over that has the name which the wrapper was given."""
    code = getattr(function, "__code__", None)
    if code is None or code.co_name == function.__name__:
        return None
    for cell in function.__closure__ or ():
        inner = cell.cell_contents
        while isinstance(inner, functools.partial):
            inner = inner.func
        if inner is not function and getattr(inner, "__name__", "") == function.__name__:
            return inner
    return None


def defined_in(function: Any) -> str:
    """The module of a function, of a partial's function or of an object's class."""
    function = unwrapped(function)
    return str(getattr(function, "__module__", None) or type(function).__module__)


def _passes() -> Iterator[Listed]:
    grouped: dict[str, list[Entry]] = {}
    for entry in entries():
        grouped.setdefault(entry.pass_name, []).append(entry)
    options = {f"{_stage_of(option)}.{option.name}": option for option in opted()}
    for step in steps():
        if step.pattern_pass is None:
            yield _step(step)
    for extra in extras():
        yield Listed(_pass(f"{extra.stage}.{extra.name}", defined_in(extra.function), ""), extra, {})
    for name, option in options.items():
        if name not in grouped:
            yield _option(name, option)
    for rule in noop_rules():
        name = f"post_grad.remove_noop_ops/{rule.name}"
        yield Listed(_entry(name, defined_in(rule.condition), "", "all", "rule"), rule, {})
    for name, members in grouped.items():
        yield from _pattern_pass(name, tuple(members))


def _stage_of(option: Opted) -> Stage:
    return Stage.PRE_GRAD if option.option.startswith("pre_grad") else Stage.POST_GRAD


def _pass(name: str, module: str, flag: str, note: str = "", device: str = "", eager: bool = True) -> Unit:
    stage, _, own = name.partition(".")
    device = device or _DEVICE_OF.get(own) or _DEVICES.get(module, "all")
    return Unit(name, Stage(stage), UnitKind.PASS, module, not flag, flag, device, eager, note)


def _entry(name: str, module: str, flag: str, device: str, note: str) -> Unit:
    stage = Stage(name.partition(".")[0])
    return Unit(name, stage, UnitKind.ENTRY, module, not flag, flag, device, note != "lowering", note)


def _step(step: Step) -> Listed:
    module = defined_in(step.function) if step.function is not None else step.pipeline.__module__
    flag = _flag(step)
    settings = step.settings()
    if step.stage == "freezing":
        settings = {"freezing": True, **settings}
        flag = " and ".join(["freezing=True", *filter(None, [flag])])
    note = "collectives" if module in _DISTRIBUTED or step.name.startswith("bucket_") else ""
    return Listed(_pass(f"{step.stage}.{step.name}", module, flag, note), step, settings)


def _flag(step: Step) -> str:
    """The tests that do not hold by default, as settings where they are plain switches."""
    off = step.off()
    if not off:
        return ""
    switches = [f"{name}=True" for name in step.settings()]
    rest = [c.replace("config.", "") for c in off] if not switches else []
    return ", ".join([*switches, *rest])


def _option(name: str, option: Opted) -> Listed:
    flag = f"{option.option}={{'{option.name}': {{}}}}"
    note, module = "empty in this build", "torch._inductor.fx_passes.split_cat"
    if option.made_by is not None:
        note, module = "group fusion", defined_in(option.made_by)
    return Listed(_pass(name, module, flag, note), option, dict(option.settings))


def _pattern_pass(name: str, members: tuple[Entry, ...]) -> Iterator[Listed]:
    settings = {**_step_settings(members[0]), **dict(settings_of(name))}
    modules = [_module_of(entry) for entry in members]
    device = _DEVICES.get(modules[0], "all") if len(set(modules)) == 1 else "all"
    device = _DEVICE_OF.get(name.partition(".")[2], device)
    eager = any(entry.kind != "lowering" for entry in members)
    note = f"{len(members)} {'entry' if len(members) == 1 else 'entries'}"
    whole = _pass(name, modules[0], _spelled(settings), note, device, eager)
    yield Listed(whole, PatternPass(members), settings)
    for entry, module in zip(members, modules, strict=True):
        own = {**settings, **dict(settings_of(entry.full_name))}
        device = _DEVICE_OF.get(entry.name, _DEVICES.get(module, "all"))
        yield Listed(_entry(entry.full_name, module, _spelled(own), device, entry.kind), entry, own)


def _spelled(settings: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in settings.items())


def _step_settings(entry: Entry) -> dict[str, Any]:
    """What switches on the pipeline's call of the pass that an entry is registered in."""
    for step in steps():
        registered = getattr(step.pattern_pass, "patterns", {})
        if any(entry.entry in group for group in registered.values()):
            return step.settings()
    return {}


def _module_of(entry: Entry) -> str:
    return defined_in(entry.source.search_fn if entry.source else entry.handler)


def _decompositions() -> Iterator[Listed]:
    for operator, function in inductor_decompositions().items():
        name, module = f"decomposition.{operator}", defined_in(function)
        unit = Unit(name, Stage.DECOMPOSITION, UnitKind.DECOMPOSITION, module, True, "", "all", True)
        yield Listed(unit, Decomposition(operator, function), {})


def _lowerings() -> Iterator[Listed]:
    for lowering in lowerings():
        name, module = f"lowering.{lowering.operator}", defined_in(lowering.function)
        note = "fallback" if lowering.fallback else ""
        unit = Unit(name, Stage.LOWERING, UnitKind.LOWERING, module, True, "", "all", False, note)
        yield Listed(unit, lowering, {})
