"""The stages whose graphs a pass of the user's can be given.  Without torch."""

from __future__ import annotations

from enum import StrEnum


class PassStage(StrEnum):
    """``any``: graphs that are made at every level, then those of programs, stage by stage until it fires."""

    ANY = "any"
    PRE_GRAD = "pre_grad"
    JOINT = "joint"
    POST_GRAD = "post_grad"
    POST_GRAD_AFTER = "post_grad_after"  #: after Inductor's own passes over it
    FREEZING = "freezing"
    EXPORT = "export"  #: ATen as AOTAutograd makes it, decomposed and simplified by nothing
    EDGE = "edge"  #: Core ATen without views, in ExecuTorch's edge dialect where that is installed


#: Stages of programs in the order in which ``any`` tries them.
IN_TURN = (PassStage.POST_GRAD, PassStage.EXPORT, PassStage.PRE_GRAD, PassStage.JOINT, PassStage.POST_GRAD_AFTER)
