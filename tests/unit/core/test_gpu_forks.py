"""Processes that use a GPU are forked from one that has loaded the compiler where its driver allows for it."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import pytest

from fxmorph.campaign import worker_server
from fxmorph.core.gpu_forks import ASK_NVML, gpu_survives_forks

survives = gpu_survives_forks.__wrapped__


@pytest.mark.parametrize(("answer", "expected"), [(0, True), (9, False)])
def test_the_management_library_must_answer(answer: int, expected: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace(nvmlInit_v2=lambda: answer))
    assert survives() is expected


def test_without_the_library_no_gpu_survives(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    assert survives() is False
    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace())  # another library of that name
    assert survives() is False


@pytest.mark.parametrize("devices", [["cpu"], ["cuda"], ["cpu", "cuda"]])
@pytest.mark.parametrize("forks", [True, False])
def test_workers_share_the_compiler_where_they_can(
    devices: list[str], forks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[tuple[list[str], bool]] = []
    environ: dict[str, str] = {}
    monkeypatch.setattr(worker_server, "start_server", lambda modules, gpu: started.append((modules, gpu)))
    monkeypatch.setattr(worker_server, "gpu_survives_forks", lambda: forks)
    monkeypatch.setattr(worker_server, "vector_units_setting", dict)
    monkeypatch.setattr(worker_server, "os", SimpleNamespace(environ=environ))
    shared = worker_server.begin(devices)
    on_gpu = "cuda" in devices
    assert bool(shared) is (forks or not on_gpu) is worker_server.forks_compiler(devices)
    assert started == [(shared, on_gpu)]
    assert (ASK_NVML.items() <= environ.items()) is on_gpu
