"""Scripts run in fresh processes: new interpreters, and forks of a server that ends with whoever began it."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fxmorph.campaign.run import SCRIPT_SERVER as SERVER
from fxmorph.core.scripts import TIMED_OUT, ForkedScripts, Scripts, ScriptServer

SCRIPTS = {
    "prints.py": "import sys\nprint('first')\nprint('said', sys.argv[1:], sys.path[0].endswith('place'), __name__)\n",
    "exits.py": "raise SystemExit(3)\n",
    "says.py": "raise SystemExit('in words')\n",
    "raises.py": "1 / 0\n",
    "dies.py": "import os\nos.kill(os.getpid(), 6)\n",
    "keeps.py": "import builtins\nprint(getattr(builtins, 'kept', 'nothing'))\nbuiltins.kept = 'something'\n",
}
SAID = {
    "prints.py": (0, "said [] True __main__"),
    "exits.py": (3, ""),
    "says.py": (1, "in words"),
    "raises.py": (1, "ZeroDivisionError: division by zero"),
    "dies.py": (-6, ""),
    "keeps.py": (0, "nothing"),
}
ENDLESS = "import os, sys, time\nopen('pid', 'w').write(str(os.getpid()))\nsys.stdout.flush()\ntime.sleep(100)\n"


@pytest.fixture(scope="module")
def server() -> Iterator[ScriptServer]:
    with ScriptServer(SERVER, os.environ) as begun:
        begun.begin()
        yield begun


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "place"
    folder.mkdir()
    for name, text in {**SCRIPTS, "endless.py": ENDLESS}.items():
        (folder / name).write_text(text)
    return folder


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def gone(pid: int) -> bool:
    until = time.monotonic() + 10
    while is_alive(pid) and time.monotonic() < until:
        time.sleep(0.05)
    return not is_alive(pid)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_new_interpreter_and_a_fork_say_the_same(name: str, place: Path, server: ScriptServer) -> None:
    assert Scripts().run([name], place, os.environ, 60) == SAID[name]
    forked = ForkedScripts(server.address)
    for _ in range(2):  # nothing of the first is left for the second
        assert forked.run([name], place, {}, 60) == SAID[name]


def test_a_module_runs_in_the_folder(place: Path, server: ScriptServer) -> None:
    (place / "inside.py").write_text("import os, sys\nprint(os.getcwd() == sys.path[0], sys.argv[1:])\n")
    arguments = ["-m", "inside", "one", "two"]
    said = (0, "True ['one', 'two']")
    assert ForkedScripts(server.address).run(arguments, place, {}, 60) == said
    assert Scripts().run(arguments, place, os.environ, 60) == said


def test_what_takes_too_long_is_killed(place: Path, server: ScriptServer) -> None:
    assert ForkedScripts(server.address).run(["endless.py"], place, {}, 0.5) == (TIMED_OUT, "no answer in 0.5 s")
    assert gone(int((place / "pid").read_text()))
    assert Scripts().run(["endless.py"], place, os.environ, 0.5)[0] == TIMED_OUT


def test_it_has_imported_the_compiler_and_has_one_thread(place: Path, server: ScriptServer) -> None:
    text = "import sys, os\nprint('torch._inductor.compile_fx' in sys.modules, len(os.listdir('/proc/self/task')))\n"
    (place / "look.py").write_text(text)
    assert ForkedScripts(server.address).run(["look.py"], place, {}, 60) == (0, "True 1")


def test_without_a_server_there_are_new_interpreters(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fxmorph.core.scripts.REACHED", 0.1)
    scripts = ForkedScripts(str(place / "nobody"))
    assert scripts.run(["exits.py"], place, os.environ, 60) == (3, "")


def test_what_scripts_used_is_a_childs(place: Path) -> None:
    (place / "works.py").write_text("import time\nwhile time.process_time() < 1.0:\n    pass\n")
    with ScriptServer(SERVER, os.environ) as server:
        server.begin()
        forked = ForkedScripts(server.address)
        assert forked.run(["exits.py"], place, {}, 60) == SAID["exits.py"]
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        assert forked.run(["works.py"], place, {}, 60)[0] == 0
        assert forked.run(["exits.py"], place, {}, 60) == SAID["exits.py"]
        assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime == before
        server.end()
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before >= 0.9


def test_who_is_not_waited_for_is_killed(place: Path) -> None:
    """Its server and the scripts end with the process that began them."""
    code = (
        "import os, sys\nfrom pathlib import Path\nfrom fxmorph.core.scripts import ForkedScripts, ScriptServer\n"
        f"with ScriptServer({SERVER!r}, os.environ) as server:\n    server.begin()\n"
        "    print(server._process.pid, os.path.dirname(server.address), flush=True)\n"
        "    ForkedScripts(server.address).run(['endless.py'], Path(sys.argv[1]), {}, 100)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code, str(place)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid, folder = parent.stdout.readline().split()
    server, until = int(pid), time.monotonic() + 60
    while not (place / "pid").exists() and time.monotonic() < until:
        time.sleep(0.05)
    parent.send_signal(signal.SIGKILL)
    parent.communicate()
    assert gone(server) and gone(int((place / "pid").read_text()))
    assert not Path(folder).exists()
