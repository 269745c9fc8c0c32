"""Jobs that crash, hang, raise or leave children behind cost only themselves."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from fxmorph.campaign.schedule import result_of_loss
from fxmorph.core import pool as workers
from fxmorph.core.config import ConfigError
from fxmorph.core.pool import Doubt, Ended, Lost, Pool, Trouble, Unequipped, answer_jobs, answers_so_far, phases
from fxmorph.model import Case, CaseResult, CompileConfig, Seed, Status, ValuePlan


def serve(connection: Connection, factor: int) -> None:
    """Answers ("double", n); does what else the job's first word says."""
    tell, so_far = phases(connection), answers_so_far(connection)
    poisoned: list[bool] = []

    def answer(job: tuple[str, Any]) -> int:
        word, value = job
        tell(f"about to {word}")
        if word == "segfault":
            ctypes.string_at(0)
        elif word == "exit":
            os._exit(value)
        elif word == "killed":
            tell(value)
            os.kill(os.getpid(), signal.SIGKILL)
        elif word == "so far":
            so_far(value)
            time.sleep(1000)
        elif word == "sleep":
            time.sleep(value)
        elif word == "spin":
            while True:
                pass
        elif word == "child":
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
            Path(value).write_text(str(child.pid))
            time.sleep(1000)
        elif word == "poison":
            poisoned.append(True)
        elif word == "raise" or poisoned:
            raise ValueError(value)
        elif word == "lose":
            raise Lost(value)
        elif word == "lack":
            raise Unequipped(value)
        return (value or 0) * factor if word == "double" else os.getpid()

    answer_jobs(connection, answer)


@pytest.fixture
def pool() -> Iterator[Pool]:
    with Pool(2, serve, (2,), []) as made:
        yield made


def until(condition: Callable[[], Any], seconds: float = 60) -> Any:
    """Wait for something that must come; the test fails when it does not."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        got = condition()
        if got:
            return got
        time.sleep(0.02)
    raise AssertionError("waited in vain")


def run(pool: Pool, *jobs: Any, limit: float = 60.0) -> dict[Any, Ended]:
    """Everything that the jobs end in, two at a time."""
    out = {ended.job: ended for ended in pool.run(jobs, limit)}
    assert not pool.busy
    return out


def alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state not in "ZX"
    return False


def test_answers_come_back_with_their_jobs(pool: Pool) -> None:
    got = run(pool, *(("double", n) for n in range(6)))
    assert {job[1]: ended.value for job, ended in got.items()} == {n: 2 * n for n in range(6)}
    assert all(ended.trouble == "" for ended in got.values())


def test_workers_persist_between_jobs(pool: Pool) -> None:
    pids = {run(pool, ("pid", n))[("pid", n)].value for n in range(4)}
    assert len(pids) == 1
    assert os.getpid() not in pids


def test_a_segfault_is_a_result_and_costs_only_its_own_job(pool: Pool) -> None:
    got = run(pool, ("double", 1), ("segfault", 0), ("double", 2), ("double", 3))
    ended = got[("segfault", 0)]
    assert (ended.trouble, ended.phase) == ("crash", "about to segfault")
    assert "SIGSEGV" in ended.detail
    assert [got[("double", n)].value for n in (1, 2, 3)] == [2, 4, 6]


def test_a_worker_that_exits_is_a_crash_with_its_code(pool: Pool) -> None:
    ended = run(pool, ("exit", 7))[("exit", 7)]
    assert (ended.trouble, ended.detail) == ("crash", "exit 7")


@pytest.mark.parametrize("phase, status", [("eager", Status.ERROR), ("compile", Status.INCONCLUSIVE)])
def test_a_worker_that_something_else_killed_accuses_nobody(pool: Pool, phase: str, status: Status) -> None:
    ended = run(pool, ("killed", phase))[("killed", phase)]
    assert (ended.trouble, ended.phase) == (Trouble.KILLED, phase) and "SIGKILL" in ended.detail
    case = Case(Seed("s.py", "module", "s"), 0, 0, (ValuePlan.SEED,), CompileConfig.make())
    result = result_of_loss(case, ended)
    assert (result.status, result.kinds) == (status, ()) and "out of memory" in result.reason


def test_a_worker_in_which_a_job_raised_is_replaced(pool: Pool) -> None:
    before = run(pool, ("pid", 0))[("pid", 0)].value
    ended = run(pool, ("raise", "bad\nworse"))[("raise", "bad\nworse")]
    assert (ended.trouble, ended.detail) == ("error", "ValueError: bad")
    assert run(pool, ("pid", 1))[("pid", 1)].value != before


def test_what_an_earlier_job_left_behind_ends_no_other(pool: Pool) -> None:
    before = run(pool, ("poison", 0))[("poison", 0)].value
    after = run(pool, *(("pid", n) for n in range(4)))
    assert before not in {ended.value for ended in after.values()}
    assert not any(ended.trouble for ended in after.values())


@pytest.mark.parametrize("asked, trouble", [(("double", 3), Trouble.CRASH), (("exit", 1), Trouble.NONE)])
def test_another_job_may_say_what_an_end_means(asked: tuple[str, int], trouble: Trouble) -> None:
    def doubt(ended: Ended) -> Doubt | None:
        assert ended.job != asked  # the answer itself is in no doubt
        if ended.trouble is not Trouble.CRASH:
            return None
        assert ended.phases == {"start", "about to segfault"}
        return Doubt(asked, lambda other: replace(ended, trouble=Trouble.NONE if other.trouble else ended.trouble))

    with Pool(1, serve, (2,), [], doubt) as pool:
        jobs = [("double", 1), ("segfault", 0), ("double", 2)]
        ends = list(pool.run(jobs, 60))
    assert [ended.job for ended in ends] == jobs
    assert [ended.trouble for ended in ends] == [Trouble.NONE, trouble, Trouble.NONE]


def test_a_worker_that_is_lost_is_a_crash_in_its_own_words(pool: Pool) -> None:
    before = run(pool, ("pid", 0))[("pid", 0)].value
    ended = run(pool, ("lose", "no device"))[("lose", "no device")]
    assert (ended.trouble, ended.phase, ended.detail) == (Trouble.CRASH, "about to lose", "no device")
    assert run(pool, ("pid", 1))[("pid", 1)].value != before


def test_ends_come_in_the_order_of_jobs_where_that_is_asked_for(pool: Pool) -> None:
    known = Ended(("known", 0), "known")
    jobs = [("sleep", 1), ("double", 1), known, ("double", 2)]
    assert [ended.job for ended in pool.run(jobs, 60, ordered=True)] == [jobs[0], jobs[1], known.job, jobs[3]]
    assert next(ended.job for ended in pool.run(jobs, 60)) != jobs[0]


def test_a_job_is_taken_when_a_worker_is_idle(pool: Pool) -> None:
    values: list[int] = []

    def jobs() -> Iterator[tuple[str, int]]:
        for number in range(4):
            assert len(values) >= number - 1  # of two workers one is idle
            yield "double", number

    for ended in pool.run(jobs(), 60):
        values.append(ended.value)
    assert sorted(values) == [0, 2, 4, 6]


def test_a_job_that_spins_is_stopped_by_its_cpu_limit(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "WALL_FACTOR", 60)  # others may have the cores
    got = run(pool, ("spin", 0), ("double", 4), limit=1.0)
    assert (got[("spin", 0)].trouble, got[("spin", 0)].phase) == ("timeout", "about to spin")
    assert got[("spin", 0)].cpu >= 0.5
    assert got[("double", 4)].value == 8


def test_a_job_that_sleeps_is_stopped_by_the_wall_guard(pool: Pool) -> None:
    ended = run(pool, ("sleep", 1000), limit=0.4)[("sleep", 1000)]
    assert ended.trouble == "timeout"


def test_what_a_stopped_job_told_of_its_answer_is_there_and_not_the_next_ones(pool: Pool) -> None:
    ended = run(pool, ("so far", 5), limit=0.4)[("so far", 5)]
    assert (ended.trouble, ended.value, ended.so_far) == ("timeout", None, 5)
    assert run(pool, ("sleep", 1000), limit=0.4)[("sleep", 1000)].so_far is None


@pytest.mark.parametrize(
    ("phase", "case_id", "status"),
    [("eager", "", Status.CLEAN), ("judge", "", Status.CLEAN), ("compile", "", Status.INCONCLUSIVE),
     ("eager", "another", Status.ERROR)],
)  # fmt: skip
def test_a_case_whose_time_ends_keeps_what_was_judged(phase: str, case_id: str, status: Status) -> None:
    case = Case(Seed("s.py", "module", "s"), 0, 0, (ValuePlan.SEED,), CompileConfig.make())
    so_far = CaseResult(case_id or case.id, Status.CLEAN)
    ended = Ended(None, None, Trouble.TIMEOUT, phase, "120 CPU seconds", 120.0, so_far=so_far)
    result = result_of_loss(case, ended)
    assert (result.case_id, result.status) == (case.id, status) and "120 CPU seconds" in result.reason
    assert result.reason.count("--case-timeout") == 1
    crashed = result_of_loss(case, replace(ended, trouble=Trouble.CRASH))
    assert crashed.status is (Status.FINDING if phase == "compile" else Status.ERROR)
    if phase != "compile":  # of what eager alone dies, too, nobody else is accused
        assert result_of_loss(case, replace(ended, trouble=Trouble.CRASH, alone=True)).status is status


def test_children_of_a_stopped_job_are_gone(pool: Pool, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    got = run(pool, ("child", str(note)), limit=1.0)
    assert got[("child", str(note))].trouble == "timeout"
    pid = int(note.read_text())
    until(lambda: not alive(pid))


def test_closing_the_pool_kills_busy_workers_and_their_children(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    with Pool(1, serve, (2,), []) as pool:
        pool.submit(("child", str(note)), 100.0)
        pid = int(until(lambda: note.exists() and note.read_text()))
        assert alive(pid)
    until(lambda: not alive(pid))


PARENT = """
import sys
sys.path[:0] = {path!r}
from fxmorph.core.pool import Pool
import test_pool
if __name__ == "__main__":
    pool = Pool(1, test_pool.serve, (2,), [])
    pool.submit(("child", {note!r}), 100.0)
    for _ in range(1000):
        list(pool.ended(1.0))
"""


def test_workers_die_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    note, script = tmp_path / "pid", tmp_path / "parent.py"
    script.write_text(PARENT.format(path=[str(Path(__file__).parent), str(Path(__file__).parents[3])], note=str(note)))
    parent = subprocess.Popen([sys.executable, str(script)])
    try:
        pid = int(until(lambda: note.exists() and note.read_text()))
        worker = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        until(lambda: not alive(worker), seconds=20)
    finally:
        parent.kill()
        if note.exists():  # leave nothing behind
            with contextlib.suppress(OSError):
                os.killpg(os.getpgid(int(note.read_text())), signal.SIGKILL)


def test_idle_counts_free_workers(pool: Pool) -> None:
    assert (pool.idle, pool.busy) == (2, False)
    pool.submit(("sleep", 5), 100.0)
    assert (pool.idle, pool.busy) == (1, True)


def test_renewed_arguments_are_those_of_jobs_that_begin_later(pool: Pool) -> None:
    pool.submit(("double", 4), 60)
    assert until(lambda: [e.value for e in pool.ended(0.1)]) == [8]
    pool.submit(("sleep", 1), 60)
    pool.renew((10,))
    assert until(lambda: [e.job for e in pool.ended(0.1)]) == [("sleep", 1)]
    for _ in range(2):
        pool.submit(("double", 4), 60)
    answers: list[Any] = []
    until(lambda: answers.extend(e.value for e in pool.ended(0.1)) or len(answers) == 2)
    assert answers == [40, 40]


def test_what_the_machine_lacks_is_an_error_of_its_own_sort(pool: Pool) -> None:
    jobs = [("lack", "toolchain: g++"), ("raise", "toolchain: g++"), ("double", 2)]
    lacking, wrong, right = pool.run(jobs, 60, ordered=True)
    assert (lacking.trouble, lacking.detail, lacking.unequipped) == (Trouble.ERROR, "toolchain: g++", True)
    assert (wrong.trouble, wrong.unequipped, right.unequipped, right.value) == (Trouble.ERROR, False, False, 4)
    case = Case(Seed("s.py", "module", "s"), 0, 0, (ValuePlan.SEED,), CompileConfig.make())
    with pytest.raises(ConfigError, match="see `fxmorph doctor`"):
        result_of_loss(case, lacking)
    assert result_of_loss(case, wrong).status is Status.ERROR


INTERRUPTED = """
import signal, sys, time
from fxmorph.core.pool import Pool
def serve(connection): pass
if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may ignore it
    with Pool(1, serve, (), ["takes_long_to_import"]):
        try:
            print("ready", flush=True)
            time.sleep(30)
        except KeyboardInterrupt:
            sys.exit(130)
"""


def test_an_interrupt_while_the_server_starts_prints_nothing(tmp_path: Path) -> None:
    (tmp_path / "starts.py").write_text(INTERRUPTED)
    slow = "import pathlib, time\npathlib.Path('importing').touch()\ntime.sleep(3)\n"
    (tmp_path / "takes_long_to_import.py").write_text(slow)
    root = str(Path(__file__).parents[3])
    child = subprocess.Popen(
        [sys.executable, "starts.py"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True, env={**os.environ, "PYTHONPATH": os.pathsep.join((root, str(tmp_path)))},
    )  # fmt: skip
    for _ in range(600):
        if (tmp_path / "importing").exists():
            break
        time.sleep(0.1)
    assert child.stdout is not None and child.stdout.readline() == "ready\n"
    os.killpg(child.pid, signal.SIGINT)
    _, said = child.communicate(timeout=60)
    assert (child.returncode, said) == (130, "")


SEEN = """
import os
from fxmorph.core.pool import Pool, answer_jobs
def serve(connection): answer_jobs(connection, os.environ.get)
if __name__ == "__main__":
    with Pool(1, serve, (), ["looks_for_gpus"]) as pool:
        for ended in pool.run(["CUDA_VISIBLE_DEVICES", "PYTORCH_NVML_BASED_CUDA_CHECK"], 10, ordered=True):
            print(repr(ended.value))
    print(os.environ["CUDA_VISIBLE_DEVICES"], "PYTORCH_NVML_BASED_CUDA_CHECK" in os.environ)
"""


def test_workers_of_a_server_with_the_compiler_see_no_gpu(tmp_path: Path) -> None:
    """Its modules ask for GPUs when they are imported, and CUDA does not survive the fork."""
    (tmp_path / "sees.py").write_text(SEEN)
    looks = "import os\nprint(repr(os.environ['CUDA_VISIBLE_DEVICES']), flush=True)"
    (tmp_path / "looks_for_gpus.py").write_text(looks)
    root = str(Path(__file__).parents[3])
    environment = {k: v for k, v in os.environ.items() if k != "PYTORCH_NVML_BASED_CUDA_CHECK"}
    environment |= {"PYTHONPATH": os.pathsep.join((root, str(tmp_path))), "CUDA_VISIBLE_DEVICES": "0"}
    child = subprocess.run([sys.executable, "sees.py"], cwd=tmp_path, capture_output=True, text=True, env=environment)
    assert (child.stdout.splitlines(), child.stderr) == (["''", "''", "'1'", "0 False"], "")


#: A worker that holds a semaphore is killed.
KILLED = """import multiprocessing, os, signal, sys
from fxmorph.core import pool

def holds(told):
    lock = multiprocessing.get_context("forkserver").RLock()
    told.send(1)
    signal.pause()

if __name__ == "__main__":
    if sys.argv[1] == "ours":
        pool.start_server([])
    context = multiprocessing.get_context("forkserver")
    mine, theirs = context.Pipe()
    worker = context.Process(target=holds, args=(theirs,))
    worker.start()
    mine.recv()
    os.kill(worker.pid, signal.SIGKILL)
    worker.join()
    print(sys.warnoptions)
"""


@pytest.mark.parametrize(("server", "said"), [("ours", False), ("plain", True)])
def test_of_a_killed_workers_semaphores_nothing_is_said(tmp_path: Path, server: str, said: bool) -> None:
    (tmp_path / "killed.py").write_text(KILLED)
    done = subprocess.run([sys.executable, "killed.py", server], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "[]\n")
    assert ("leaked semaphore" in done.stderr) is said, done.stderr
