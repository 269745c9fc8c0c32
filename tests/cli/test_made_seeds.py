"""``fxmorph seeds``: made seeds, printed and written."""

from __future__ import annotations

from pathlib import Path

from preloaded import Command

from fxmorph.core.seeds import find_seeds


def test_generated_seeds_are_printed_and_written(tmp_path: Path, fxmorph: Command) -> None:
    done = fxmorph("seeds", "generate", "--seed", "3", "--count", "4", "--out", "made", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "4 seeds in made\n")
    seeds, refused = find_seeds([str(tmp_path / "made")])
    assert len(seeds) == 4 and not refused
    assert seeds[2].origin == "fxmorph seeds generate --seed 3 --first 2"
    printed = fxmorph("seeds", "generate", "--seed", "3", "--first", "2", cwd=tmp_path)
    assert printed.stdout == Path(seeds[2].path).read_text()


def test_a_folder_that_cannot_be_made_is_a_usage_error(tmp_path: Path, fxmorph: Command) -> None:
    (tmp_path / "taken").write_text("")
    done = fxmorph("seeds", "generate", "--out", "taken", cwd=tmp_path)
    assert done.returncode == 2 and "--out taken" in done.stderr


def test_the_example_in_the_docs_is_what_the_command_prints(tmp_path: Path, fxmorph: Command) -> None:
    docs = (Path(__file__).parents[2] / "docs" / "seeds.md").read_text(encoding="utf-8")
    printed = fxmorph("seeds", "generate", "--seed", "11", "--first", "11", cwd=tmp_path).stdout
    assert f"$ fxmorph seeds generate --seed 11 --first 11\n{printed}```" in docs


def test_operators_of_torch_s_tests_are_listed(tmp_path: Path, fxmorph: Command) -> None:
    done = fxmorph("seeds", "ops", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    *rows, last = done.stdout.splitlines()
    listed = {row.split()[0]: row for row in rows[1:]}
    assert " alone backward fused trained in-place " in listed["op:add"] and "op:bernoulli" not in listed
    assert last.startswith(f"{len(listed)} of ") and last.endswith(" programs")
    assert find_seeds(list(listed)[:50])[0]


def test_architectures_are_listed_with_how_to_get_their_library(tmp_path: Path, fxmorph: Command) -> None:
    done = fxmorph("seeds", "models", "gpt2", "resnet", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    head, *rows = done.stdout.splitlines()
    assert head.split() == ["architecture", "library", "installed"]
    assert [row.split()[:2] for row in rows] == [["gpt2", "transformers"], ["resnet", "torchvision"]]


def test_an_unknown_architecture_is_a_usage_error(tmp_path: Path, fxmorph: Command) -> None:
    done = fxmorph("seeds", "models", "gpt9", "--out", "made", cwd=tmp_path)
    assert done.returncode == 2 and "gpt9" in done.stderr and not (tmp_path / "made").exists()
