"""Which input sets a case is judged on, and on how many threads.

``check``, ``explain`` and ``run --no-rewrites`` judge a seed as it is on the same sets, so that they give one verdict.
"""

from __future__ import annotations

from dataclasses import replace

from fxmorph.core.config import Settings
from fxmorph.model import SIZE_PLANS, CompileConfig, Kernels, Seed, ValuePlan, digest

#: Judged on one compile.
PLANS = (
    ValuePlan.SEED, ValuePlan.EXACT, ValuePlan.MASK, ValuePlan.NORMAL, ValuePlan.NEAR, ValuePlan.LIMITS,
    ValuePlan.NEGATIVE, ValuePlan.AGAIN, ValuePlan.ROWS, *SIZE_PLANS,
)  # fmt: skip
#: Of ``--quick``: the program's own values alone.
QUICK = (ValuePlan.SEED, ValuePlan.AGAIN, *SIZE_PLANS)
#: Of the first look at a seed, which comes again on all sets: those that show most of what another shows.
LOOK = (ValuePlan.SEED, ValuePlan.EXACT, ValuePlan.MASK, *SIZE_PLANS)
#: Of programs that are made and not written: operators' and generated ones.
MADE_PLANS = (ValuePlan.SEED, ValuePlan.EXACT, ValuePlan.NEGATIVE, ValuePlan.AGAIN)
#: Of the first look at those of operators: whole numbers are equal now and then, and on bounds.
MADE_LOOK = (ValuePlan.SEED, ValuePlan.EXACT)
#: Of seeds of many operations, whose point is the code that is generated for them.
DENSE_PLANS = (ValuePlan.SEED, ValuePlan.EXACT, ValuePlan.MASK, ValuePlan.NEGATIVE, ValuePlan.LIMITS)
#: In every so many rounds variants get inputs of another layout.  Where there are variants, one seed of so many is
#: judged in another layout too, which takes a compile of its own; else every seed is.
RELAID_EVERY = 3
#: Each on a compile of its own, of seeds that are judged in another layout too.
APART = (
    ValuePlan.LAYOUT, ValuePlan.THREADS, ValuePlan.GPU, ValuePlan.CACHED, ValuePlan.RANDOM, ValuePlan.STRICT,
)  # fmt: skip
#: Of those, what asks for other settings of the compiler and nothing else: graphs and variants can be judged so too.
SETTINGS_ALONE = (ValuePlan.RANDOM, ValuePlan.STRICT)
#: Every so many cases of a campaign run on THREADS threads, as users' programs do: loops that run in parallel are
#: other code.  Seeds as they are run on one, and under plan ``threads`` on so many.
THREADED_EVERY, THREADS = 4, 4
#: Runs of the compiled program on equal inputs, where it has several threads: races show in some of them.
RACES = 4


def plans_of(settings: Settings, seed: Seed, number: int) -> tuple[ValuePlan, ...]:
    """The input sets of a seed as it is (``number`` 0) or of a variant; edge cases only where they are wanted."""
    plans: tuple[ValuePlan, ...] = PLANS
    if settings.quick:
        plans = QUICK if not settings.interprets else (*QUICK, ValuePlan.GPU)
    elif number == 0 and (not settings.rewrites or int(digest([settings.seed, seed.hash]), 16) % RELAID_EVERY == 0):
        plans = (*PLANS, *(plan for plan in APART if _tells(plan, settings)))
    return (*plans, ValuePlan.SPECIAL) if settings.edge_cases else plans


def _tells(plan: ValuePlan, settings: Settings) -> bool:
    """Whether a plan asks for what these settings have: loops and caches are Inductor's, threads the CPU's."""
    if plan is ValuePlan.THREADS and (settings.threads > 1 or settings.device == "cuda"):
        return False
    if plan is ValuePlan.GPU:
        return settings.interprets
    if plan in (ValuePlan.CACHED, ValuePlan.STRICT) and settings.interprets:
        return False  # caches hold code, and it is code that is to compute as eager does
    if plan is ValuePlan.RANDOM and (settings.interprets or "fallback_random" in dict(settings.inductor)):
        return False  # interpreted kernels have no generators of their own
    return plan is ValuePlan.LAYOUT or settings.backend == "inductor"


def threads_of(settings: Settings, index: int) -> int:
    """Threads of the case that is ``index`` in the order of its run."""
    if settings.threads:
        return settings.threads
    return THREADS if settings.rewrites and index % THREADED_EVERY == THREADED_EVERY - 1 else 1


def kernels_of(settings: Settings, index: int) -> Kernels:
    """What becomes of the kernels of the case that is ``index`` in the order of its run.

    Where they are interpreted every other variant's are fused as for a GPU; seeds as they are have plan ``gpu``.
    """
    if not settings.interprets:
        return Kernels.GENERATED
    return Kernels.GPU if settings.rewrites and index % 2 else Kernels.CPP


def under(plan: ValuePlan, config: CompileConfig) -> tuple[CompileConfig, ValuePlan]:
    """The configuration that a plan asks for, and the plan whose inputs it has."""
    if plan is ValuePlan.THREADS:
        return replace(config, threads=THREADS), ValuePlan.SEED
    if plan is ValuePlan.GPU:
        return replace(config, kernels=Kernels.GPU), ValuePlan.SEED
    if plan is ValuePlan.CACHED:
        return config.with_inductor({"fx_graph_cache": True}), plan
    if plan is ValuePlan.RANDOM:
        return config.with_inductor({"fallback_random": False}), plan
    if plan is ValuePlan.STRICT:
        from fxmorph.torchapi.strict_numerics import strict_numerics  # torch, which who makes plans does not have

        return config.with_inductor(strict_numerics()), plan
    return config, plan
