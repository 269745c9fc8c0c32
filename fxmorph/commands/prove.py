"""``fxmorph prove``: rules, or the prover's own model of operators."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fxmorph.commands.columns import print_line
from fxmorph.core.config import ConfigError, Settings, duration, read_option
from fxmorph.rules import refuse_unknown


def prove(
    settings: Settings,
    names: Sequence[str],
    every: bool,
    conformance: bool,
    solver: str,
    recheck: bool,
    record: Path | None,
    fuzz: str | None,
) -> int:
    """Prove the rules with these ids or globs, or every one, or compare the model; returns the exit code.

    ``recheck``: z3 and cvc5 decide each query again from its text, and the rest is computed again.
    With ``fuzz``, a time as ``30m``, wrong rules are made of them for so long, of all where none is named.
    """
    seconds = read_option("--fuzz", duration, fuzz)
    if seconds is None and sum((bool(names), every, conformance)) != 1:
        raise ConfigError("name rules by id or glob, or say --all, or --conformance (`fxmorph rules` lists them)")
    if seconds is not None and (every or conformance or solver or recheck or record):
        raise ConfigError("--fuzz goes with names of rules alone, and is of all without")
    if solver not in ("", "cvc5", "bitwuzla"):
        raise ConfigError(f"--solver {solver}: not cvc5 or bitwuzla")
    if not settings.transforms:
        refuse_unknown(name for name in names if not any(c in name for c in "*?["))
    from fxmorph.commands.rule_proofs import check_conformance, prove_rules
    from fxmorph.report.proof_table import ProofTable

    table = ProofTable(print_line, settings.json, settings.quiet)
    if seconds is not None:
        from fxmorph.commands.prover_fuzz import fuzz_prover

        code = fuzz_prover(settings, names, seconds, table.handle)
    elif conformance:
        code = check_conformance(settings.device, table.handle)
    else:
        from fxmorph.prove.recheck import COMPUTED

        again = ("z3", "cvc5", COMPUTED) if recheck else ()
        code = prove_rules(settings, names, again or ((solver,) if solver else ()), record, table.handle)
    table.close()
    return code
