"""The graphs of a corpus that proposals are compared with, mutated and chained on.

Capturing a corpus takes a minute; what is looked up often (hashes, operations) is kept in the state
folder, by seed.
"""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fxmorph.core.seeds import find_seeds
from fxmorph.model import CompileConfig, Seed, digest
from fxmorph.programs.canon import canonical
from fxmorph.programs.capture import Captured, CaptureFailed, capture_torch
from fxmorph.programs.graph import Unprintable, calls
from fxmorph.programs.load import LoadedSeed, SeedFailed, load_seed


def program_key(captured: Captured) -> str:
    """A graph and the specs of its inputs; raises ``Unprintable``."""
    specs = [None if s is None else (s.dtype, s.shape, s.stride, s.offset, s.requires_grad) for s in captured.specs()]
    return digest([captured.hash, specs])


@dataclass
class CorpusGraphs:
    """Seeds of a corpus by file stem, captured when asked for."""

    folder: Path
    state: Path
    _index: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    _seeds: dict[str, Seed] = field(default_factory=dict)

    @property
    def seeds(self) -> dict[str, Seed]:
        """By stem, in order of path."""
        if not self._seeds and self.folder.is_dir():
            self._seeds = {Path(s.path).stem: s for s in find_seeds([str(self.folder)])[0]}
        return self._seeds

    def matching(self, globs: Sequence[str]) -> list[str]:
        return [stem for stem in self.seeds if any(fnmatch.fnmatchcase(stem, glob) for glob in globs)]

    def captured(self, stem: str) -> tuple[LoadedSeed, list[Captured]]:
        """The graphs of a seed; none where it gives none."""
        loaded = load_seed(self.seeds[stem])
        try:
            config = loaded.config(CompileConfig())
            return loaded, capture_torch(loaded.fresh(), config, loaded.no_grad)
        except (CaptureFailed, SeedFailed):
            return loaded, []

    def named(self, key: str) -> str:
        """The stem of the seed whose program has this key, under no settings; "" where there is none."""
        return next((stem for stem, row in self.index().items() if key in row["keys"]), "")

    def with_operations(self, operations: set[str]) -> list[str]:
        """Stems of the seeds that have all of these operations in one graph."""
        return [
            s for s, row in self.index().items() if any(operations <= set(ops.split()) for ops in row["operations"])
        ]

    def index(self) -> dict[str, dict[str, list[str]]]:
        """Of each seed the keys and operations of its graphs."""
        if not self._index:
            file = self.state / "corpus-graphs.json"
            try:
                kept = json.loads(file.read_text())
            except (OSError, ValueError):
                kept = {}
            hashes = {stem: seed.hash for stem, seed in self.seeds.items()}
            self._index = {stem: kept[h] if h in kept else self._described(stem) for stem, h in hashes.items()}
            if set(hashes.values()) - set(kept):
                kept |= {hashes[stem]: row for stem, row in self._index.items()}
                file.write_text(json.dumps(kept))
        return self._index

    def _described(self, stem: str) -> dict[str, list[str]]:
        keys, operations = [], []
        try:
            loaded, graphs = self.captured(stem)
        except SeedFailed:
            graphs = []
        for captured in graphs:
            try:
                config = tuple(sorted(loaded.meta.get("config", {}).items()))
                keys.append(digest([program_key(captured), config]))
            except Unprintable:
                continue
            operations.append(" ".join(sorted({canonical(n).name for n in calls(captured.graph)})))
        return {"keys": keys, "operations": operations}
