"""Signed integer division in its three roundings, and clock arithmetic.

Time offsets may be negative; floor, trunc and remainder decide on which day and
in which slot an event falls."""

import torch

ORIGIN = "time features of a forecasting model (own spelling)"


def make_inputs():
    return [torch.arange(-37, 38, 5, dtype=torch.int32), torch.tensor(7), 24]


def fn(hours, step, day):
    date = hours // day
    slot = hours % day
    toward_zero = torch.div(hours, step, rounding_mode="trunc")
    rest = torch.fmod(hours, step)
    weekend = ((date % 7) == 5) | ((date % 7) == 6)
    fine = torch.where(weekend & (slot < 12), toward_zero, -toward_zero)
    return date, slot, fine, rest, weekend.logical_xor(slot > 12)
