"""Workers: what a broken device and a harness error become."""

from __future__ import annotations

from typing import Any

import pytest

from fxmorph.campaign import jobs, worker
from fxmorph.core.clock import Clock
from fxmorph.model import Case, CompileConfig, Rung, Seed, ValuePlan
from fxmorph.torchapi.devices import DeviceLost


class Script:
    """A connection that hands out jobs and keeps what is sent."""

    def __init__(self, jobs: list[Any]) -> None:
        self.jobs, self.sent = jobs, []

    def recv(self) -> Any:
        if not self.jobs:
            raise EOFError
        return self.jobs.pop(0)

    def send(self, message: Any) -> None:
        self.sent.append(message)


def serve(monkeypatch: pytest.MonkeyPatch, judge: Any) -> list[Any]:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "")  # serve sets it: the one of before comes back
    monkeypatch.setattr(worker, "print_to", lambda log: None)
    monkeypatch.setattr(worker, "rules_with", lambda *folders: {})
    monkeypatch.setattr(worker, "judge_case", judge)
    case = Case(Seed("s.py", "module", "s"), 0, 0, (ValuePlan.SEED,), CompileConfig.make(), rung=Rung.IR)
    connection = Script([jobs.Judge(0, case), jobs.Judge(1, case)])
    try:
        worker.serve(connection, [], "cache", "log", "proofs")  # type: ignore[arg-type]
    except EOFError:
        connection.sent.append("end")
    return connection.sent


def test_a_lost_device_ends_the_worker_and_names_the_activity_that_lost_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def judge(case: Any, rules: Any, clock: Clock, prover: Any) -> None:
        with clock.activity("compile"):
            raise DeviceLost("CUDA error: device-side assert triggered")

    sent = serve(monkeypatch, judge)
    assert sent[-2:] == [("phase", "compile"), ("lost", "CUDA error: device-side assert triggered")]


def test_a_device_that_broke_unnoticed_spoils_no_later_job(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise DeviceLost("unspecified launch failure")

    monkeypatch.setattr(worker, "require_device", broken)
    sent = serve(monkeypatch, lambda case, rules, clock, prover: "result of a broken device")
    assert sent == [("lost", "unspecified launch failure")]


def test_an_error_of_the_harness_is_one_line_and_the_worker_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    def judge(case: Any, rules: Any, clock: Clock, prover: Any) -> None:
        raise RuntimeError("first line\nsecond line")

    sent = serve(monkeypatch, judge)
    assert sent == [("error", "RuntimeError: first line")]
