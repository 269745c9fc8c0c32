"""Processes forked after Inductor was asked for vector units do not build libraries to find out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fxmorph.core.vector_units import SETTING
from fxmorph.programs.forked import Said, forked
from fxmorph.torchapi.asked_vector_units import know_vector_units
from fxmorph.torchapi.compiling import cpp_compiler

pytestmark = pytest.mark.skipif(cpp_compiler() is None, reason="Inductor needs a C++ compiler")


def test_forks_know(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor import cpu_vec_isa

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(SETTING, raising=False)
    know_vector_units.cache_clear()
    know_vector_units()

    def asked(_: None) -> Iterator[str]:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(cpu_vec_isa.VecISA, "check_build", lambda self, code: pytest.fail("built again"))
            yield str(cpu_vec_isa.pick_vec_isa())

    ((_, said),) = forked([None], asked, 60.0)
    assert said == Said(str(cpu_vec_isa.pick_vec_isa()))
