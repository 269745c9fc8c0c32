"""The units of the installed torch, without importing it where an earlier process has."""

from __future__ import annotations

from fxmorph.core.installed_lists import UNITS
from fxmorph.core.units import Unit


def installed_units() -> tuple[Unit, ...]:
    """Every unit, ordered by stage, whole passes before their entries."""
    known = UNITS.remembered()
    if known is not None:
        return known
    from fxmorph.inductor.inventory import inventory

    found = inventory()
    UNITS.remember(found)
    return found
