"""Launcher of fxmorph/cli.py from a checkout: ``python cli.py run corpus/``."""

from fxmorph.cli import main

if __name__ == "__main__":
    main()
