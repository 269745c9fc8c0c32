"""Rules of proposals: checked bodies in the form that matching, proving and campaigns take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from fxmorph.model import Level
from fxmorph.propose.language.grammar import check_condition
from fxmorph.propose.language.restricted import Body
from fxmorph.propose.proposal import Malformed, MutationProposal, RuleProposal
from fxmorph.rules import PROPOSED, Rule
from fxmorph.torchapi.fake import FakeTensorMode


def build_rule(proposal: RuleProposal | MutationProposal, source: str = "") -> Rule:
    """The rule that a proposal states; its id has a prefix, so that it clashes with no rule of a person.

    Raises ``Malformed`` or ``Unsupported``.
    """
    p = proposal
    try:
        before = Body(p.before, p.args, tuple(p.scalars))
    except ValueError as error:
        raise type(error)(f"before: {error}") from None
    try:
        after = Body(p.after, p.args, tuple(p.scalars))
    except ValueError as error:
        raise type(error)(f"after: {error}") from None
    first = next(iter(p.args))
    if p.site != "op" and p.before.strip() not in (first, f"return {first}"):
        raise Malformed(f"before of a {p.site!r} rule is its one argument, {first!r}")
    sizes = {word for text in p.args.values() for word in text.split() if word.isidentifier()}
    for text in p.where:
        check_condition(text, (*p.args, *p.scalars, *sizes))
    return Rule(
        id=f"{PROPOSED}_{p.name}",
        before=before,
        after=after,
        args=dict(p.args),
        doc=p.doc,
        where=p.where,
        scalars=dict(p.scalars),
        dtypes=p.dtypes,
        claim=Level(p.claim),
        assumes=p.assumes,
        preserves=frozenset(p.preserves),
        targets=(p.aims,),
        site=p.site,
        mixed=p.mixed,
        source=source,
    )


def estimate(body: Body, tensors: Mapping[str, torch.Tensor], scalars: Mapping[str, Any]) -> None:
    """Run a body on fake tensors, which allocates nothing; raises ``TooLarge``, and what its operations raise."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    given: dict[str, Any] = {n: mode.from_tensor(t, static_shapes=True) for n, t in tensors.items()}
    given |= scalars
    with mode, torch.no_grad():
        body(**{n: given[n] for n in body.parameters})
