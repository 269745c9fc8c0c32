"""Modules that were compiled before, brought to the state of those made anew."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from fxmorph.judge.restored import restored
from fxmorph.programs.load import Invocation, state_of

pytestmark = pytest.mark.usefixtures("torch_quiet")


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.register_buffer("seen", torch.zeros(3))
        self.mask = torch.tensor([1.0, 0.0, 1.0])
        self.sizes = [1, 2]
        self._calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.add_(1)
        return x * self.weight * self.mask


def parametrized() -> nn.Module:
    return nn.utils.parametrizations.weight_norm(nn.Linear(3, 3))


ORDINARY: dict[str, Callable[[], nn.Module]] = {
    "layers": lambda: nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout(), nn.ReLU()),
    "recurrent": lambda: nn.GRU(3, 3, batch_first=True),
    "attention": lambda: nn.TransformerEncoderLayer(3, 1, 4, batch_first=True),
    "parametrized": parametrized,
    "attributes": Counting,
    "shared": lambda: nn.Sequential(*[nn.Linear(3, 3)] * 2),
}


def made(make: Callable[[], nn.Module], seed: int) -> Invocation:
    torch.manual_seed(seed)
    fn = make()
    return Invocation(fn, [torch.randn(4, 3)], lambda g: None, state_of(fn))


@pytest.mark.parametrize("name", ORDINARY)
def test_an_ordinary_module_is_taken_back_to_its_state(name: str) -> None:
    old, new = made(ORDINARY[name], 0), made(ORDINARY[name], 1)
    torch.compile(old.fn, backend="eager")(torch.randn(2, 4, 3) if name in ("recurrent", "attention") else old.args[0])
    other = restored(old, new)
    assert other is not None and other.fn is old.fn and other.args is new.args
    assert all(torch.equal(t, new.state[k]) for k, t in state_of(other.fn).items())


def other_mode(fn: Counting) -> None:
    fn.eval()


def other_number(fn: Counting) -> None:
    fn._calls += 1


def other_list(fn: Counting) -> None:
    fn.sizes.append(3)


def other_tensor(fn: Counting) -> None:
    fn.mask = torch.zeros(3)


def written_tensor(fn: Counting) -> None:
    fn.mask.zero_()


def other_buffer(fn: Counting) -> None:
    fn.seen = torch.ones(3)


def kept_state(fn: Counting) -> None:
    fn.kept = fn.weight  # type: ignore[assignment]


def kept_object(fn: Counting) -> None:
    fn.cache = {"last": torch.ones(3)}  # type: ignore[assignment]


CHANGES = [other_mode, other_number, other_list, other_tensor, written_tensor, other_buffer, kept_state, kept_object]


@pytest.mark.parametrize("change", CHANGES)
def test_what_a_call_left_otherwise_is_not(change: Callable[[Counting], None]) -> None:
    old, new = made(Counting, 0), made(Counting, 0)
    change(old.fn)  # type: ignore[arg-type]
    assert restored(old, new) is None
