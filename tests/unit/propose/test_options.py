"""Settings that a proposed seed may have: those that change what is compiled, and no others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch._inductor.config

from fxmorph.propose.gate.outcomes import shipped_packs
from fxmorph.propose.gate.seed_file import meta_of
from fxmorph.propose.gate.seed_gate import judge_seed
from fxmorph.propose.gate.seed_settings import ALLOWED, allowed_settings
from fxmorph.propose.gate.sources import CorpusGraphs
from fxmorph.propose.proposal import Outcome, SeedProposal, Unsupported, read_pack, read_proposal


def seed(settings: dict[str, Any]) -> SeedProposal:
    body = {"task": "seed", "name": "a", "doc": "d", "aims": "kc", "inputs": [{"name": "x", "shape": [2]}],
            "body": "x + 1", "inductor": settings}  # fmt: skip
    made = read_proposal(json.loads(json.dumps(body)))
    assert isinstance(made, SeedProposal)
    return made


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"trace.enabled": True}, "setting trace.enabled"),
        ({"save_args": True}, "setting save_args"),
        ({"trace.graph_diagram": True}, "setting trace.graph_diagram"),
        ({"cpp.threads": 100000}, "setting cpp.threads"),
        ({"freezing": True, "compile_threads": 40}, "setting compile_threads"),
        ({"fallback_random": False}, "setting fallback_random"),
        ({"use_fast_math": True}, "setting use_fast_math"),
        ({"no_such_setting": True}, "setting no_such_setting"),
        ({"max_fusion_size": 10**9}, "setting max_fusion_size of 1000000000; at most 1024"),
        ({"post_grad_fusion_options": {"a": {"b": -1e300}}}, "setting post_grad_fusion_options of -1e+300; at most"),
    ],
)
def test_other_settings_are_unsupported_and_named(settings: dict[str, Any], said: str, tmp_path: Path) -> None:
    made = seed(settings)
    judged = judge_seed(made, "test:1", CorpusGraphs(tmp_path, tmp_path))
    assert judged.outcome is Outcome.UNSUPPORTED and judged.reason.startswith(said)
    with pytest.raises(Unsupported):  # as where admitted seeds are written
        meta_of(made)


def test_what_the_shipped_packs_use_is_allowed() -> None:
    used = [
        line.proposal.inductor
        for pack in sorted(shipped_packs().glob("*.jsonl"))
        for line in read_pack(pack)
        if isinstance(line.proposal, SeedProposal) and line.proposal.inductor
    ]
    assert len(used) > 60
    for settings in used:
        assert allowed_settings(settings) == settings


def test_every_allowed_setting_is_a_switch_a_number_or_a_table() -> None:
    """None is a text, which could name a program; ``cpp.simdlen`` is a number or None."""
    for name in ALLOWED:
        value = torch._inductor.config
        for part in name.split("."):
            value = getattr(value, part)
        assert value is None or isinstance(value, (bool, int, float, dict)), name
