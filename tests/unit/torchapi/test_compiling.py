"""What exceptions of the compiler say, and of whom."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from torch._inductor.exc import CppCompileError, InductorError

from fxmorph.torchapi.compiling import cpp_compiler, forget_headers, forget_unfinished, spoken, toolchain_trouble


def wrapped(error: Exception) -> Exception:
    try:
        raise InductorError(error, None) from error
    except InductorError as outer:
        return outer


@pytest.mark.parametrize(
    ("error", "lacks"),
    [
        (ModuleNotFoundError("No module named 'setuptools'"), True),
        (RuntimeError("InvalidCxxCompiler: No working C++ compiler found"), True),
        (ZeroDivisionError("division by zero"), False),
        (AttributeError("no attribute 'x'"), False),
    ],
)
def test_what_a_machine_lacks_is_no_fault_of_the_compiler(error: Exception, lacks: bool) -> None:
    assert bool(toolchain_trouble(wrapped(error))) is lacks


@pytest.mark.skipif(cpp_compiler() is None, reason="Inductor needs a C++ compiler")
def test_a_compiler_that_builds_nothing_is_lacking_and_one_that_builds_the_rest_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = wrapped(CppCompileError(["g++", "k.cpp"], "k.cpp:7:3: error: 'tmp' was not declared in this scope"))
    assert toolchain_trouble(refused) == ""
    real = subprocess.check_output

    def failing(command: list[str], *args: object, **more: Any) -> Any:
        if "-shared" in command or any(str(word).endswith(".cpp") for word in command):
            raise subprocess.CalledProcessError(1, command, b"k.cpp:1:10: fatal error: Python.h: No such file")
        return real(command, *args, **more)

    monkeypatch.setattr(subprocess, "check_output", failing)
    monkeypatch.setattr(subprocess, "run", failing)
    assert "Python.h" in toolchain_trouble(refused)


def test_of_a_cpp_compilers_output_its_first_error_is_said() -> None:
    output = "In file included from a.h:1:\nk.cpp:7:3: error: 'tmp' was not declared in this scope\n   7 | tmp;\n"
    said = spoken(wrapped(CppCompileError(["g++", "-I" + "x" * 999, "k.cpp"], output)))
    assert said.startswith("InductorError: C++ compile error: k.cpp:7:3: error: 'tmp' was not declared")


def test_headers_can_be_forgotten() -> None:
    from torch._inductor import codecache

    forget_headers()
    assert codecache._precompile_header.cache_info().currsize == 0


def test_a_library_that_a_killed_linker_left_is_removed_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, elsewhere = tmp_path / "cache", tmp_path / "elsewhere"
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(cache))
    for folder, removed in ((cache, True), (elsewhere, False)):
        folder.mkdir()
        library = folder / "cabc.main.so"
        library.write_bytes(b"")
        assert forget_unfinished(wrapped(ImportError(f"{library}: file too short"))) is removed
        assert library.exists() is not removed
    assert not forget_unfinished(wrapped(ZeroDivisionError(f"{cache}/x.so")))
