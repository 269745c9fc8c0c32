"""Exit codes: of the command line, and of the scripts in a finding's folder."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """What ``fxmorph`` ends with."""

    OK = 0
    """What was asked for was done; of a run: no finding that counts (known ones count with ``--fail-on known``)."""
    FINDINGS = 1
    """A finding; of ``doctor`` a self-test that fails, of ``prove`` a rule of which less is shown than it claims, or a
    new difference of ``--conformance``."""
    USAGE = 2
    """Usage or configuration; of ``doctor`` a machine that cannot run what was asked for."""
    INTERNAL = 3
    """Internal error, disk trouble, a seed that could not be judged for an error or because eager raises on its inputs,
    or too many harness errors."""
    UNSOUND = 4
    """An unsound rewrite: a rule is wrong, not the compiler."""
    NOTHING_RAN = 5
    """Nothing ran, or a limit ended the run before every seed was judged."""
    INTERRUPTED = 130
    """Ctrl-C; what was judged is stored."""


class ReproExit(IntEnum):
    """What a finding's ``repro.py`` ends with, alone, with the guilty unit switched off or with a mend."""

    GONE = 0
    """No difference."""
    STILL_THERE = 1
    """The difference is shown."""
    BREAKS = 2
    """The repro itself fails."""
    LOST_DEVICE = 3
    """Of a child process: kernels broke the GPU context."""
    NO_UNIT = 4
    """No unit that can be switched off."""
    NO_MEND = 5
    """The mend was not made for this torch."""
    NOT_BY_THE_MEND = 6
    """No difference, and the mend did nothing."""
