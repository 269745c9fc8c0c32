"""What the server has loaded that workers are forked from."""

from fxmorph.core.uncollected import uncollected

with uncollected():
    import fxmorph.campaign.worker  # noqa: F401
