"""The units of the installed torch, without importing it where an earlier process has."""

from __future__ import annotations

from fxmorph.core.installed_lists import UNITS
from fxmorph.core.units import Unit


def installed_units() -> tuple[Unit, ...]:
    """Every unit, ordered by stage, whole passes before their entries."""
    return UNITS.found(_inventory)


def _inventory() -> tuple[Unit, ...]:
    from fxmorph.inductor.inventory import inventory

    return inventory()
