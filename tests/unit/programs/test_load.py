"""Seeds as callables with fresh inputs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fxmorph.core.seeds import find_seeds
from fxmorph.model import CompileConfig
from fxmorph.programs.load import LoadedSeed, SeedFailed, load_seed

pytestmark = pytest.mark.usefixtures("torch_quiet")


def loaded(folder: Path, text: str, name: str = "") -> list[LoadedSeed]:
    (folder / "seed.py").write_text("import torch\n" + text)
    path = str(folder / "seed.py") + (f":{name}" if name else "")
    return [load_seed(seed) for seed in find_seeds([path])[0]]


def test_inputs_are_fresh_and_drawn_by_the_input_seed(tmp_path: Path) -> None:
    (seed,) = loaded(tmp_path, "def make_inputs(): return [torch.randn(3)]\ndef fn(x): return x.add_(1)\n")
    a, b, other = seed.fresh(0), seed.fresh(0), seed.fresh(1)
    assert torch.equal(a.args[0], b.args[0])
    assert not torch.equal(a.args[0], other.args[0])
    a.drive(a.fn)
    assert torch.equal(b.args[0] + 1, a.args[0])


def test_what_the_module_holds_is_given_as_it_was_at_first(tmp_path: Path) -> None:
    text = "X = torch.randn(3)\nHELD = [X]\ndef make_inputs(): return [X, HELD]\ndef fn(x, held): return x.add_(1)\n"
    (seed,) = loaded(tmp_path, text)
    a = seed.fresh()
    before = a.args[0].clone()
    a.drive(a.fn)
    b, c = seed.fresh(), seed.fresh()
    assert torch.equal(b.args[0], before) and torch.equal(c.args[0], before)
    assert b.args[1][0] is b.args[0] and b.args[0] is not c.args[0]


def test_what_is_made_anew_each_time_is_not_loaded_anew(tmp_path: Path) -> None:
    text = "LOADS = [0]\ndef make_inputs(): return [torch.randn(3)]\ndef fn(x): return x\n"
    (seed,) = loaded(tmp_path, text)
    kept = [seed.fresh() for _ in range(3)]
    assert not seed.gives_again and len({id(k.args[0]) for k in kept}) == 3
    del kept
    assert all(not seed.fresh().fn.__globals__["LOADS"][0] for _ in range(3)) and not seed.gives_again


def test_a_module_seed_has_state_of_its_own_each_time(tmp_path: Path) -> None:
    text = "fn = torch.nn.BatchNorm1d(2)\ndef make_inputs(): return [torch.randn(4, 2)]\n"
    (seed,) = loaded(tmp_path, text)
    a, b = seed.fresh(), seed.fresh()
    a.drive(a.fn)
    assert {"weight", "bias", "running_mean"} <= set(a.state)
    assert not torch.equal(a.state["running_mean"], b.state["running_mean"])


def test_a_factory_is_seeded_alike(tmp_path: Path) -> None:
    text = "def make_fn(): return torch.nn.Linear(2, 2)\ndef make_inputs(): return [torch.ones(1, 2)]\n"
    (seed,) = loaded(tmp_path, text)
    assert torch.equal(seed.fresh(0).state["weight"], seed.fresh(5).state["weight"])


def test_a_class_is_loaded_in_both_modes(tmp_path: Path) -> None:
    text = (
        "class Net(torch.nn.Module):\n    def forward(self, x): return x\n    @staticmethod\n"
        "    def make_inputs(): return [torch.ones(1)]\n"
    )
    by_mode = {seed.seed.mode: seed for seed in loaded(tmp_path, text, "Net")}
    assert by_mode["train"].fresh().fn.training and not by_mode["eval"].fresh().fn.training
    assert by_mode["eval"].no_grad and not by_mode["train"].no_grad


def test_meta_is_read_by_its_known_keys_alone(tmp_path: Path) -> None:
    text = (
        "def make_inputs(): return [torch.ones(1)]\ndef fn(x): return x\n"
        "META = {'config': {'freezing': True}, 'compile': {'dynamic': True}, 'expected': 'finding', 'no_grad': True}\n"
    )
    (seed,) = loaded(tmp_path, text)
    assert "expected" not in seed.meta
    assert seed.no_grad
    config = seed.config(CompileConfig.make("aot_eager", options={"dynamic": False}))
    assert dict(config.inductor) == {"freezing": True}
    assert dict(config.options) == {"dynamic": False}  # the command line wins


def test_calls_and_drive_decide_how_it_is_run(tmp_path: Path) -> None:
    text = "def make_inputs(): return [torch.zeros(1)]\ndef fn(x): return x.add_(1)\n"
    (twice,) = loaded(tmp_path, text + "META = {'calls': 2}\n")
    made = twice.fresh()
    assert made.drive(made.fn).tolist() == [2]
    (driven,) = loaded(tmp_path, text + "def drive(g, x): return g(x) * 10\n")
    made = driven.fresh()
    assert made.drive(made.fn).tolist() == [10]


@pytest.mark.parametrize(
    "text",
    [
        "import no_such_module\ndef make_inputs(): return []\ndef fn(): pass\n",
        "def make_inputs(): raise ValueError('none\\nhere')\ndef fn(): pass\n",
    ],
)
def test_a_seed_that_fails_says_so(tmp_path: Path, text: str) -> None:
    with pytest.raises(SeedFailed):
        loaded(tmp_path, text)[0].fresh()


@pytest.mark.parametrize("name", ["", "Net"])
def test_inputs_are_a_list_or_a_tuple(tmp_path: Path, name: str) -> None:
    text = "def make_inputs(): return torch.ones(2, 3)\ndef fn(a, b): return a + b\nclass Net:\n    pass\n"
    with pytest.raises(SeedFailed) as error:
        loaded(tmp_path, text, name)[0].fresh()
    assert str(error.value) == "make_inputs() returns a Tensor, want a list or tuple of arguments"


def test_an_exported_program_is_a_seed(tmp_path: Path) -> None:
    exported = torch.export.export(torch.nn.Linear(3, 2), (torch.ones(1, 3),))
    torch.export.save(exported, tmp_path / "net.pt2")
    (seed,), _ = find_seeds([str(tmp_path / "net.pt2")])
    made = load_seed(seed).fresh()
    assert made.drive(made.fn).shape == (1, 2)


def test_keyword_inputs_of_an_exported_program_are_bound(tmp_path: Path) -> None:
    class Net(torch.nn.Module):
        def forward(self, a: torch.Tensor, *, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
            return a + 2 * b - c

    x = torch.ones(3)
    exported = torch.export.export(Net(), (x,), {"b": 5 * x, "c": x})
    torch.export.save(exported, tmp_path / "net.pt2")
    (seed,), _ = find_seeds([str(tmp_path / "net.pt2")])
    made = load_seed(seed).fresh()
    assert len(made.args) == 3
    assert made.drive(made.fn).tolist() == [10.0] * 3


def test_a_runnable_script_says_where_its_inputs_are(tmp_path: Path) -> None:
    text = (
        "class Repro(torch.nn.Module):\n    def forward(self, a): return (a,)\n"
        "def load_args(reader):\n"
        "    reader.tensor(reader.storage(None, 96, device=torch.device(type='DEVICE', index=0)), (2, 3))\n"
        "mod = Repro()\n"
    )
    (on_gpu,) = loaded(tmp_path, text.replace("DEVICE", "cuda"))
    assert on_gpu.meta["device"] == "cuda"
    (elsewhere,) = loaded(tmp_path, text.replace("DEVICE", "meta"))
    assert elsewhere.fresh().args[0].device.type == "meta"


def test_a_runnable_script_is_a_seed(tmp_path: Path) -> None:
    text = (
        "class Repro(torch.nn.Module):\n    def forward(self, a): return (a.sum(1),)\n"
        "def load_args(reader):\n    buf0 = reader.storage(None, 96)\n"
        "    reader.tensor(buf0, (2, 3), (1, 4), is_leaf=True)\n"
        "mod = Repro()\n"
    )
    (seed,) = loaded(tmp_path, text)
    made = seed.fresh()
    assert made.args[0].stride() == (1, 4)
    assert made.args[0].untyped_storage().nbytes() == 96
    assert made.drive(made.fn)[0].shape == (2,)


@pytest.mark.parametrize(
    "text",
    [
        "def fn(x, y): return x + y\n",
        "def fn(): return 1\n",
        "class fn(torch.nn.Module):\n    def forward(self): return 1\nfn = fn()\n",
    ],
)
def test_a_program_that_does_not_take_its_inputs_is_an_error_of_the_seed(tmp_path: Path, text: str) -> None:
    (seed,) = loaded(tmp_path, "def make_inputs(): return [torch.randn(3)]\n" + text)
    with pytest.raises(SeedFailed, match="does not take its inputs: "):
        seed.fresh()


@pytest.mark.parametrize(
    "text",
    [
        "def fn(*tensors, scale=2): return tensors[0] * scale\n",
        "fn = torch.relu\n",
        "def fn(x, y): return x + y\ndef drive(g, x): return g(x, x)\n",
        "def fn(x): raise TypeError('by design')\n",
    ],
)
def test_a_program_that_takes_them_is_none(tmp_path: Path, text: str) -> None:
    (seed,) = loaded(tmp_path, "def make_inputs(): return [torch.randn(3)]\n" + text)
    assert len(seed.fresh().args) == 1


def test_inputs_that_are_no_list_are_an_error_of_the_seed(tmp_path: Path) -> None:
    (seed,) = loaded(tmp_path, "def make_inputs(): return 3\ndef fn(x): return x\n")
    with pytest.raises(SeedFailed, match="want a list or tuple"):
        seed.fresh()
