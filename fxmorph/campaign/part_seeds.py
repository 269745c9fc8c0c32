"""A part of a model as a seed file, given what it is given where the model runs."""

from __future__ import annotations

from pathlib import Path

from fxmorph.core.model_parts import Part
from fxmorph.model import Seed

_TEXT = '''"""{what} of {path}:{name} in {mode} mode, given what it is given there."""

import copy
import sys
import types

import torch

PATH, NAME, PART, TRAINING = {path!r}, {name!r}, {part!r}, {training}
#: Names of arguments that the part is given by name.
KEYWORDS = {keywords!r}


def _loaded():
    module = sys.modules["_whole_model"] = types.ModuleType("_whole_model")
    module.__file__ = PATH
    torch.manual_seed(0)
    sys.path.insert(0, PATH.rpartition("/")[0])
    try:
        with open(PATH, "rb") as file:
            exec(compile(file.read(), PATH, "exec"), vars(module))
    finally:
        del sys.path[0]
    return module


_source = _loaded()
META = {{**getattr(_source, "META", {{}}), "no_grad": not TRAINING}}
#: What the part is given, by the seed of random numbers.
_given = {{}}


class _Reached(Exception):
    """The part is called."""


class _ByPosition(torch.nn.Module):
    def __init__(self, part):
        super().__init__()
        self.part = part

    def forward(self, *args):
        first = len(args) - len(KEYWORDS)
        return self.part(*args[:first], **dict(zip(KEYWORDS, args[first:])))


def _model():
    torch.manual_seed(1)
    made = getattr(_source, NAME)
    made = copy.deepcopy(made) if isinstance(made, torch.nn.Module) else made()
    return made.train(TRAINING)


def make_fn():
    part = _model().get_submodule(PART)
    return _ByPosition(part) if KEYWORDS else part


def make_inputs():
    seed = torch.initial_seed()
    if seed not in _given:
        _given[seed] = _caught()
    return copy.deepcopy(_given[seed])


def _caught():
    make = getattr(getattr(_source, NAME), "make_inputs", None) or _source.make_inputs
    given, model, caught = make(), _model(), []

    def reached(module, args, kwargs):
        caught.extend([*args, *(kwargs[name] for name in KEYWORDS)])
        raise _Reached

    model.get_submodule(PART).register_forward_pre_hook(reached, with_kwargs=True)
    try:
        with torch.set_grad_enabled(TRAINING):
            model(*given)
    except _Reached:
        pass
    return torch.utils._pytree.tree_map(_leaf, caught)


def _leaf(value):
    if not isinstance(value, torch.Tensor):
        return value
    return value.detach().clone().requires_grad_(value.requires_grad)
'''


def write_part(folder: Path, seed: Seed, part: Part) -> Path:
    """The file, in ``folder``, which is made where it is missing; ``seed`` is a model by name, in one mode."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{part.name or 'whole'}.py"
    file.write_text(
        _TEXT.format(
            what=f"{part.name} ({part.kind})" if part.name else "All", path=str(Path(seed.path).resolve()),
            name=seed.name, mode=seed.mode, part=part.name, training=seed.mode == "train", keywords=part.keywords,
        ),
        encoding="utf-8",
    )  # fmt: skip
    return file
