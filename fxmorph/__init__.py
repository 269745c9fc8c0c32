"""fxmorph: a metamorphic tester for torch.compile.  Importing it does not import torch."""

from pathlib import Path as _Path
from typing import Any as _Any

# In a checkout that is not installed, transforms/, oracles/ and corpus/ lie beside the
# package and not in it; an installed fxmorph has them inside and never gets here.
_checkout = _Path(__file__).parent.parent
if not (_Path(__file__).parent / "transforms").is_dir() and (_checkout / "pyproject.toml").is_file():
    __path__.append(str(_checkout))


def __getattr__(name: str) -> _Any:
    if name == "__version__":
        from fxmorph.core.versions import version_of

        return version_of("fxmorph")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
