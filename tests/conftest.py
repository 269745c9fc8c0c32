"""What many tests share: quiet torch on one thread, the rules, judging with a stand-in for the compiler."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from preloaded import Command, Preloaded

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")


@pytest.fixture(scope="session", autouse=True)
def compile_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A cache of this session's own, so that no test reads what an earlier run compiled; xdist's workers share it."""
    old = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    base = tmp_path_factory.getbasetemp()
    cache = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "inductor"
    cache.mkdir(exist_ok=True)
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(cache)
    yield
    if old is None:
        del os.environ["TORCHINDUCTOR_CACHE_DIR"]
    else:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = old


@pytest.fixture(scope="session")
def preloaded(compile_cache: None) -> Iterator[Preloaded]:
    """Runs scripts and fxmorph's commands in forks of a process that has imported torch's compiler."""
    started = Preloaded()
    yield started
    started.close()


@pytest.fixture
def fxmorph(preloaded: Preloaded) -> Command:
    """``fxmorph(*arguments, cwd=…, **environment)`` from the command line, with torch loaded beforehand."""
    return preloaded.fxmorph


@pytest.fixture(scope="session")
def torch_quiet() -> None:
    """Torch on one thread and without the compiler's log lines."""
    import torch

    from fxmorph.torchapi.compiling import quiet

    torch.set_num_threads(1)
    quiet()


@pytest.fixture(scope="session")
def rules() -> Any:
    from fxmorph.rules import load_rules

    return load_rules()


@pytest.fixture
def judged(torch_quiet: None) -> Callable[..., Any]:
    """``judged(eager, compiled, inputs)``: verdicts when ``compiled`` stands in for the compiled program."""
    from fxmorph.core.clock import Clock
    from fxmorph.judge.trial import GraphSubject, Trial
    from fxmorph.model import CompileConfig, ValuePlan
    from fxmorph.programs.inputs import InputSet
    from fxmorph.programs.observe import Observation

    class Replaced(Trial):
        """A trial whose compiled side is another plain function."""

        stand_in: Callable[..., Any]

        def compiled(self, plan: ValuePlan) -> Observation:
            return self.observe(plan, lambda fn: self.stand_in)

    def judge(
        eager: Callable[..., Any],
        compiled: Callable[..., Any],
        inputs: Sequence[Any],
        plan: ValuePlan = ValuePlan.SEED,
        no_grad: bool = False,
    ) -> list[Any]:
        from fxmorph.programs.capture import inputs_under

        frozen = InputSet.snapshot(inputs)
        given = frozen if plan is ValuePlan.SEED else inputs_under(plan, frozen, 0)
        subject = GraphSubject(eager, {plan: given}, lambda c: c, no_grad)
        trial = Replaced(subject, CompileConfig.make(), 0, Clock())
        trial.stand_in = compiled
        return trial.judge(plan)

    return judge


@pytest.fixture
def status_of(judged: Callable[..., Any]) -> Callable[..., Any]:
    """Like ``judged``, but (status, kinds as a set of words) of the whole case."""
    from fxmorph.judge.trial import summary

    def status(*args: Any, **kwargs: Any) -> tuple[Any, set[str]]:
        verdict, kinds, _ = summary(judged(*args, **kwargs))
        return verdict, {str(k) for k in kinds}

    return status
