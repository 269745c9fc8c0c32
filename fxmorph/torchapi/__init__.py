"""The only place that imports private modules of torch (``torch._*``), one file a feature.

A new torch release that moves something breaks one of these files and nothing else;
``tests/unit/test_layering.py`` enforces it.
"""
