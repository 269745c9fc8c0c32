"""``python -m fxmorph`` and the ``fxmorph`` command."""

from __future__ import annotations

from fxmorph.cli import main

if __name__ == "__main__":
    main()
