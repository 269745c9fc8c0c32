"""What of a call is seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from fxmorph.programs.load import Invocation
from fxmorph.programs.memory import overlap, overlaps_itself
from fxmorph.programs.observe import Observation, loss_of, meta_of, observe

pytestmark = pytest.mark.usefixtures("torch_quiet")


def seen(fn: Callable[..., Any], *args: Any, state: dict[str, torch.Tensor] | None = None, **more: Any) -> Observation:
    return observe(Invocation(fn, list(args), lambda g: g(*args), state or {}), lambda f: f, **more)


def test_outputs_are_named_and_nested_structure_is_kept() -> None:
    got = seen(lambda x: {"a": x + 1, "b": (x, 3)}, torch.ones(2))
    assert [s.name for s in got.outputs] == ["out0", "out1", "out2"]
    assert got.outputs[2].value == 3
    assert got.structure != seen(lambda x: [x + 1, x, 3], torch.ones(2)).structure


def test_outputs_are_kept_as_they_were_returned() -> None:
    x = torch.zeros(2)
    got = seen(lambda x: x, x)
    x.fill_(5)
    assert got.outputs[0].value.tolist() == [0, 0]


def test_inputs_and_state_after_the_call_are_seen() -> None:
    buffer = torch.zeros(1)
    got = seen(lambda x: (x.add_(1), buffer.add_(2))[0], torch.zeros(2), state={"b": buffer}).slots()
    assert got["after:input0"].value.tolist() == [1, 1]
    assert got["after:state:b"].value.tolist() == [2]


def test_aliases_and_identity_are_pairs() -> None:
    x = torch.arange(6.0)
    got = seen(lambda x: (x, x[1:], x[:1], x + 1), x)
    assert got.identities == {("out0", "input0")}
    with_input = {(f"out{i}", "input0") for i in range(3)}
    assert got.aliases == with_input | {("out1", "out0"), ("out2", "out0")}


def test_overlap_is_decided_by_elements() -> None:
    x = torch.zeros(10)
    assert overlap(x[:4], x[3:])
    assert not overlap(x[:4], x[4:])
    assert not overlap(x[::2], x[1::2])
    assert not overlap(x, torch.zeros(10))
    assert not overlap(x[:0], x)
    assert overlap(x.view(torch.int32)[3:4], x[3:5])


def test_large_tensors_whose_extents_do_not_meet_do_not_overlap() -> None:
    x = torch.zeros(1 << 18)
    half = len(x) // 2
    assert not overlap(x[:half], x[half:]) and not overlap(x[half:], x[:half])
    assert overlap(x[: half + 1], x[half:])


def test_overlap_with_itself_is_decided_by_elements() -> None:
    x = torch.zeros(10)
    assert overlaps_itself(x[:4].expand(2, 4)) and overlaps_itself(x.as_strided((3, 2), (1, 1)))
    assert not overlaps_itself(x.as_strided((3, 2), (2, 3)))
    assert not overlaps_itself(x[:1].expand(1, 1)) and not overlaps_itself(x[:0].expand(3, 0))


def test_gradients_are_of_leaves_and_of_a_fixed_loss() -> None:
    def once() -> Observation:
        return seen(lambda x, w: x @ w, torch.ones(2, 3), torch.ones(3, 2, requires_grad=True))

    a, b = once(), once()
    assert [s.name for s in a.gradients] == ["grad:input1"]
    assert torch.equal(a.gradients[0].value, b.gradients[0].value)
    assert bool(a.gradients[0].value.any())


def test_gradients_go_through_writes_into_inputs() -> None:
    def into(b: torch.Tensor, w: torch.Tensor) -> None:
        b.mul_(w)

    got = seen(into, torch.ones(3) * 2, torch.ones(3, requires_grad=True)).slots()
    assert got["after:input0"].meta is not None and got["after:input0"].meta.requires_grad
    again = seen(into, torch.ones(3) * 4, torch.ones(3, requires_grad=True)).slots()
    assert torch.equal(again["grad:input1"].value, 2 * got["grad:input1"].value)
    assert bool(got["grad:input1"].value.any())


def test_the_loss_of_what_is_written_does_not_hang_on_how_much_is_returned() -> None:
    def into(b: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        b.copy_(w * 3)
        return (b > 0).sum()

    def and_another(b: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return into(b, w), torch.arange(3)

    one, two = (seen(f, torch.zeros(3), torch.ones(3, requires_grad=True)).slots() for f in (into, and_another))
    assert torch.equal(one["grad:input1"].value, two["grad:input1"].value)


def test_an_input_that_is_not_written_is_not_differentiated() -> None:
    w = torch.ones(3, requires_grad=True)
    assert seen(lambda y: y.detach() + 1, w * 2, state={"w": w}).gradients == []


@pytest.mark.parametrize("no_grad", [False, True])
def test_gradients_that_a_program_makes_itself_are_taken_as_they_are(no_grad: bool) -> None:
    def trains(w: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            loss = (w * w).sum()
            loss.backward()
        return loss

    got = seen(trains, torch.full((2,), 3.0, requires_grad=True), no_grad=no_grad)
    assert not got.raised
    assert [(s.name, s.value.tolist()) for s in got.gradients] == [("grad:input0", [6, 6])]


def test_what_lists_and_dicts_hold_after_the_call() -> None:
    def puts(held: dict[str, Any], x: torch.Tensor) -> None:
        held["b"] = x + 1
        held["a"] = x + 2

    def keeps(held: dict[str, Any], x: torch.Tensor) -> None:
        held["a"].add_(2)

    got, kept = (seen(fn, {"a": torch.zeros(1)}, torch.zeros(1)) for fn in (puts, keeps))
    assert got.arguments != kept.arguments
    values = {s.name: s.value.tolist() for s in got.after}
    assert values == {"after:input0": [2], "after:input1": [1], "after:input2": [0], "after:dropped:input0": [0]}
    assert {s.name: s.value.tolist() for s in kept.after} == {"after:input0": [2], "after:input1": [0]}


def test_state_that_a_module_gets_is_its_state() -> None:
    class Counting(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("n", torch.zeros(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.n = self.n + 1
            return x

    made = Counting()
    got = seen(made, torch.ones(1), state=dict(made.named_buffers())).slots()
    assert got["after:state:n"].value.tolist() == [1]
    assert got["after:dropped:state:n"].value.tolist() == [0]


def test_no_grad_gives_no_gradients() -> None:
    got = seen(lambda w: w * 2, torch.ones(2, requires_grad=True), no_grad=True)
    assert got.gradients == []
    assert got.outputs[0].meta is not None and not got.outputs[0].meta.requires_grad


def test_an_exception_is_an_observation() -> None:
    got = seen(lambda x: x.reshape(7), torch.ones(2))
    assert got.raised.startswith("RuntimeError: ")
    assert "\n" not in got.raised


def test_interrupts_pass_through() -> None:
    def fn(x: torch.Tensor) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        seen(fn, torch.ones(1))


def test_random_numbers_are_the_same_in_each_run() -> None:
    a, b = (seen(lambda x: torch.rand(3) + x, torch.zeros(3)) for _ in range(2))
    assert torch.equal(a.outputs[0].value, b.outputs[0].value)


def test_weights_of_the_loss_do_not_depend_on_the_generator() -> None:
    out = torch.ones(4, requires_grad=True) * 1
    torch.manual_seed(1)
    first = loss_of([out], exact=False)
    torch.manual_seed(2)
    second = loss_of([out], exact=False)
    assert first is not None and second is not None and torch.equal(first, second)
    assert loss_of([torch.ones(2)], exact=False) is None


def test_metadata_is_whole() -> None:
    meta = meta_of(torch.zeros(3, 4, dtype=torch.int8)[1:, ::2])
    assert (meta.shape, meta.stride, meta.offset, meta.device) == ((2, 2), (4, 2), 4, "cpu")
    assert (meta.type, meta_of(torch.nn.Parameter(torch.zeros(1))).type) == ("Tensor", "Parameter")
