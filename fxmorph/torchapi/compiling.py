"""``torch.compile`` under a configuration, Dynamo's state, the compiler's exceptions."""

from __future__ import annotations

import contextlib
import difflib
import logging
import os
import re
import sys
import time
import types
import typing
import uuid
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch._dynamo
import torch._dynamo.config
import torch._functorch.config
import torch._inductor.config
from torch._dynamo.exc import BackendCompilerFailed, TorchDynamoException

from fxmorph.core.said import cut
from fxmorph.model import CompileConfig, Kernels, check_arguments

#: Exceptions that come from compiling, not from running, a program.
COMPILER_EXCEPTIONS: tuple[type[BaseException], ...] = (TorchDynamoException, BackendCompilerFailed)

#: What a backend ladder walks, mildest first.
BACKEND_LADDER = ("eager", "aot_eager_default_partitioner", "aot_eager", "aot_eager_decomp_partition")
#: Attributes that ``torch.compile`` puts on a module that it is given.
MARKS = frozenset({"_is_torch_compile"})
#: Methods of modules that tell or take names.
_NAMING = (
    "named_parameters", "named_buffers", "named_modules", "state_dict", "load_state_dict", "get_parameter",
    "get_buffer", "get_submodule",
)  # fmt: skip
#: Characters that are kept of an exception's message.
MESSAGE = 300


def quiet() -> None:
    """Silence warnings, log lines and measurements of the compiler; called once in each worker."""
    warnings.filterwarnings("ignore")
    # To time guards for a log line Dynamo empties the processor's caches, which takes 20 ms of every compile.
    guards: Any = torch._dynamo.guards
    if hasattr(guards, "profile_guard_manager"):
        guards.profile_guard_manager = lambda *_: 0.0
    logging.getLogger("torch").setLevel(logging.CRITICAL)
    for name in ("torch._dynamo", "torch._inductor", "torch._functorch", "torch.fx"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def reset() -> None:
    """Forget everything that Dynamo compiled in this process."""
    torch._dynamo.reset()
    interpreting = sys.modules.get("fxmorph.torchapi.interpreted_kernels")
    if interpreting is not None:
        interpreting.forget_kernels()


def _known(config: Any, settings: dict[str, Any], what: str) -> dict[str, Any]:
    for name in settings:
        if not hasattr(config, name):
            raise ValueError(f"this torch ({torch.__version__}) has no {what} setting {name!r}")
        wanted = _plain_types(config, name)
        fits = isinstance(settings[name], wanted) or (float in wanted and type(settings[name]) is int)
        if wanted and not fits and not (bool in wanted and settings[name] in (0, 1)):
            names = " or ".join(t.__name__ for t in wanted if t is not type(None))
            raise ValueError(f"{what} setting {name!r} is {settings[name]!r}, want {names}")
    return settings


def has_setting(name: str) -> bool:
    """Whether this release's Inductor has a setting."""
    return hasattr(torch._inductor.config, name)


def _plain_types(config: Any, name: str) -> tuple[type, ...]:
    """The types of a setting that takes nothing but flags, numbers and texts; none where it takes more, or is silent.

    Torch checks none of them: a wrong one raises somewhere in the compiler, or counts as true.
    """
    get_type = getattr(config, "get_type", None)  # torch 2.7 and later
    declared = get_type(name) if get_type is not None else None
    among = typing.get_args(declared) if typing.get_origin(declared) in (typing.Union, types.UnionType) else (declared,)
    return among if all(t in (bool, int, float, str, type(None)) for t in among) else ()


@contextlib.contextmanager
def configured(config: CompileConfig) -> Iterator[None]:
    """Compiler settings for one case: its own, and those that every case has.

    Random numbers fall back to eager's so that equal seeds give equal numbers; compile
    caches are off so that each case is compiled; one compile thread, since workers are
    the parallelism.  With ``fx_graph_cache`` AOTAutograd's is on too, and nothing is found in
    them but what was put there since.  Raises ``ValueError`` on an unknown setting.
    """
    inductor: dict[str, Any] = {
        "fallback_random": True,
        "fx_graph_cache": False,
        "compile_threads": 1,
        **_known(torch._inductor.config, dict(config.inductor), "inductor"),
    }
    dynamo: dict[str, Any] = _known(torch._dynamo.config, dict(config.dynamo), "dynamo")
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch._inductor.config.patch(inductor))
        stack.enter_context(torch._dynamo.config.patch(dynamo))
        caches = bool(inductor["fx_graph_cache"])
        if hasattr(torch._functorch.config, "enable_autograd_cache"):
            stack.enter_context(torch._functorch.config.patch(enable_autograd_cache=caches))
        if caches and has_own_caches():
            shared: Any = torch.compiler.config
            stack.enter_context(shared.patch(cache_key_tag=uuid.uuid4().hex))
        if config.kernels is not Kernels.GENERATED:
            from fxmorph.torchapi.interpreted_kernels import kernels_interpreted  # of what older releases lack

            stack.enter_context(kernels_interpreted(config.kernels, printed=True))
        yield


#: Settings of Inductor that hold a pass of the user's own; it runs as a step of that name.
HOOKS = frozenset(
    "pre_grad_custom_pass joint_custom_pre_pass joint_custom_post_pass post_grad_custom_pre_pass "
    "post_grad_custom_post_pass".split()
)


def hooked(name: str) -> str:
    """What the pass is called that a hook holds now; "" where it holds none, and of what is no hook."""
    held = getattr(torch._inductor.config, name, None) if name in HOOKS else None
    return "" if held is None else getattr(held, "__qualname__", None) or type(held).__qualname__


@contextlib.contextmanager
def caches_off() -> Iterator[None]:
    """What is compiled inside is compiled, and not looked up."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch._inductor.config.patch(fx_graph_cache=False))
        if hasattr(torch._functorch.config, "enable_autograd_cache"):
            stack.enter_context(torch._functorch.config.patch(enable_autograd_cache=False))
        yield


@contextlib.contextmanager
def on_threads(count: int) -> Iterator[None]:
    """Operators, and loops that are compiled inside, have so many threads."""
    before = torch.get_num_threads()
    if before == count:
        yield
        return
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def has_own_caches() -> bool:
    """Whether this release can keep what one trial puts into the compile caches apart from all else there."""
    settings = getattr(torch.compiler, "config", None)
    return hasattr(settings, "cache_key_tag") and hasattr(torch._functorch.config, "enable_autograd_cache")


def check_settings(config: CompileConfig) -> None:
    """Raises ``ValueError`` on a backend, a setting or an argument that this torch does not have."""
    if config.backend not in backends():
        near = difflib.get_close_matches(config.backend, backends(), 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"--backend {config.backend}: this torch has no such backend{hint}")
    if config.kernels is not Kernels.GENERATED:
        if config.backend != "inductor":
            raise ValueError(f"--rung ir: kernels are those of backend inductor, not of {config.backend}")
        if missing := no_interpreter():
            raise ValueError(f"--rung ir: the rung is absent: {missing}")
    _known(torch._inductor.config, dict(config.inductor), "inductor")
    _known(torch._dynamo.config, dict(config.dynamo), "dynamo")
    options = dict(config.options)
    check_arguments(options)
    modes = torch._inductor.list_mode_options()
    if options.get("mode") not in (None, *modes):
        raise ValueError(f"mode of torch.compile: want {', '.join(modes)}, got {options['mode']!r}")
    also = {str(name).replace("-", "_"): value for name, value in (options.get("options") or {}).items()}
    _known(torch._inductor.config, also, "inductor")


def no_interpreter() -> str:
    """Why kernels cannot be interpreted with this release, "" where they can."""
    try:
        from fxmorph.torchapi.interpreted_kernels import missing_settings
    except ImportError as error:
        return f"this torch ({torch.__version__}) lacks what its kernels are interpreted by: {error}"
    missing = missing_settings()
    return f"this torch ({torch.__version__}) has no {', '.join(missing)} in torch._inductor.config" if missing else ""


def compile_modes() -> dict[str, dict[str, Any]]:
    """What ``mode`` of ``torch.compile`` may be, each with the settings of Inductor that it stands for."""
    from torch._inductor import list_mode_options

    return {name: dict(settings) for name, settings in list_mode_options().items()}


def freezes(config: CompileConfig) -> bool:
    """Whether parameters become constants of the compiled code: other values need another compile."""
    own = dict(config.inductor).get("freezing", torch._inductor.config.freezing)
    return bool((dict(config.options).get("options") or {}).get("freezing", own))


def compile_callable(fn: Callable[..., Any], config: CompileConfig) -> Callable[..., Any]:
    """``torch.compile(fn)`` from a clean state; call and use it under :func:`configured`.

    What stands for a module names what it holds as the module does: ``torch.compile`` puts ``_orig_mod.`` before, which
    is no difference that a program means to show.
    """
    reset()
    options = dict(config.options)
    if config.backend != "inductor":
        options.pop("mode", None)
        options.pop("options", None)
    compiled = torch.compile(fn, backend=config.backend, **options)
    if isinstance(fn, torch.nn.Module):
        vars(compiled).update({name: getattr(fn, name) for name in _NAMING})
    return compiled


def backends() -> list[str]:
    """Names of the registered ``torch.compile`` backends, debug ones included."""
    return sorted(set(torch._dynamo.list_backends(exclude_tags=())))


def register_backend(name: str, function: Callable[..., Any]) -> None:
    """Make ``torch.compile(backend=name)`` find ``function``."""
    if name not in torch._dynamo.list_backends(exclude_tags=()):
        torch._dynamo.register_backend(function, name=name)


def cpp_compiler() -> str | None:
    """The C++ compiler that Inductor would call, or None where there is none."""
    import shutil

    wanted = torch._inductor.config.cpp.cxx
    names = [n for n in (wanted if isinstance(wanted, (tuple, list)) else (wanted,)) if n]
    names += [os.environ.get("CXX", "g++"), "g++", "clang++"]
    return next((p for p in map(shutil.which, names) if p), None)


def warm_imports() -> None:
    """Import what a first compile would, so that forked workers share it.

    Runs no operator: a process that has started torch's thread pool must not fork.
    """
    import torch._inductor.codecache
    import torch._inductor.codegen.cpp
    import torch._inductor.compile_fx
    import torch._inductor.decomposition
    import torch._inductor.fx_passes.joint_graph
    import torch._inductor.fx_passes.post_grad
    import torch._inductor.lowering
    import torch.fx.experimental.validator
    import torch.utils.cpp_extension  # noqa: F401


def is_compiler_error(error: BaseException) -> bool:
    """Whether the exception was raised by compiling rather than by running."""
    module = type(error).__module__ or ""
    return isinstance(error, COMPILER_EXCEPTIONS) or module.startswith(("torch._inductor", "torch._dynamo"))


#: What plain exceptions say that mean the same: an operator without a fake implementation is not for the compiler, nor
#: are gradients of gradients of what it compiled (pytorch 91469).
REFUSALS = ("banned in compile", "no fake impl registered", "does not currently support double backward")


def cannot_compile(error: BaseException) -> bool:
    """Whether the compiler says that it does not do such programs (not a bug)."""
    from torch._dynamo.exc import Unsupported, UserError
    from torch._subclasses.fake_tensor import (
        DataDependentOutputException,
        DynamicOutputShapeException,
        UnsupportedOperatorException,
    )
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    kinds = (
        Unsupported,
        UserError,
        DataDependentOutputException,
        DynamicOutputShapeException,
        UnsupportedOperatorException,
        GuardOnDataDependentSymNode,
        NotImplementedError,
    )
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, kinds) or any(words in str(seen) for words in REFUSALS):
            return True
        seen = getattr(seen, "inner_exception", None) or seen.__cause__
    return False


def spoken(error: BaseException) -> str:
    """``Type: message`` on one line; of a C++ compiler's output its first error, which comes after a long command."""
    text = " ".join(str(error).split())
    output = _compiler_output(error)
    if output is not None:
        lines = [line.strip() for line in output.splitlines() if line.strip()]
        text = "C++ compile error: " + next((li for li in lines if "error" in li), lines[0] if lines else "no output")
    return f"{type(error).__name__}: {cut(text, MESSAGE)}"


def _compiler_output(error: BaseException) -> str | None:
    """What a C++ compiler printed that failed; None where none did."""
    output = getattr(_innermost(error), "output", None)
    return output.decode(errors="replace") if isinstance(output, bytes) else output


def _innermost(error: BaseException) -> BaseException:
    inner = getattr(error, "inner_exception", None) or error.__cause__
    return error if inner is None else _innermost(inner)


def forget_unfinished(error: BaseException) -> bool:
    """Remove from Inductor's cache the library that could not be loaded, where that is what went wrong.

    A linker that is killed leaves a file that is none, and whoever compiles the same code later takes it for done.
    """
    from torch._inductor.runtime.cache_dir_utils import cache_dir

    if not isinstance(_innermost(error), (ImportError, OSError)):
        return False
    home = Path(cache_dir()).resolve()
    named = (Path(text) for text in re.findall(r"/\S+?\.so\b", str(_innermost(error))))
    found = [file for file in named if file.resolve().is_relative_to(home) and file.is_file()]
    for file in found:
        file.unlink()
    return bool(found)


def forget_headers() -> None:
    """Have the next C++ compile look for its precompiled headers again.

    They lie in a folder that all processes share, a process looks once, and without them every compile fails.
    """
    from torch._inductor import codecache

    clear = getattr(getattr(codecache, "_precompile_header", None), "cache_clear", None)
    if clear is not None:  # releases before 2.8 have none
        clear()


def toolchain_trouble(error: BaseException) -> str:
    """What this machine lacks, where compilation failed for that; "" where the program may be to blame.

    It has no C++ or Triton compiler, or misses a package that torch needs for it (setuptools).  Or the C++ compiler
    builds nothing at all: Python's headers are not there, or the disk is full.
    """
    inner = _innermost(error)
    text = f"{type(error).__name__} {error}"
    words = ("InvalidCxxCompiler", "TritonMissing", "Cannot find a working triton", "No working C++")
    if isinstance(inner, ModuleNotFoundError) or any(word in text for word in words):
        return spoken(error)
    return "" if _compiler_output(error) is None else _trouble_of_any_program()


def _trouble_of_any_program() -> str:
    """Why the plainest program does not compile, "" where it does; each time of another size, which no cache has."""
    config = CompileConfig.make()
    try:
        with configured(config):
            compile_callable(torch.neg, config)(torch.ones(time.time_ns() % 9973 + 1))
    except Exception as error:
        return f"no program compiles here: {spoken(error)}"
    return ""
