"""Command lines that the help of each command shows; a test parses every one."""

from __future__ import annotations

#: By the words of the command after ``fxmorph``.
EXAMPLES = {
    "": (
        "fxmorph check model.py:Net",
        "fxmorph run corpus/ --max-time 15m",
    ),
    "run": (
        "fxmorph run corpus/",
        "fxmorph run model.py:Net --max-time 10m --dtype bfloat16",
        "fxmorph run corpus/ --pass 'joint.pass_patterns[0]/*'",
        "fxmorph run seeds --baseline known.txt --report junit=results.xml",
        "fxmorph run corpus/ --shard 2/8 --state shard-2",
        "fxmorph run corpus/ --engine ray",
        "fxmorph run --resume",
    ),
    "fuzz": ("fxmorph fuzz corpus/ --max-time 8h -j 16",),
    "check": (
        "fxmorph check model.py:Net",
        "fxmorph check seeds --compile dynamic=True,mode=max-autotune",
        "fxmorph check op:roll 'op:nn.functional.avg_pool2d:bfloat16[backward]'",
    ),
    "localize": ("fxmorph localize model.py:Net", "fxmorph localize model.py:Net --mode train --dtype bfloat16"),
    "replay": ("fxmorph replay a7e8d3", "fxmorph replay --all"),
    "bisect": ("fxmorph bisect a7e8d3 --python torch-2.10/bin/python --python torch-2.13/bin/python",),
    "compare": ("fxmorph compare before/ after/",),
    "merge": ("fxmorph merge shard-1/ shard-2/ --into all/",),
    "nightly": (
        "fxmorph nightly --python torch-nightly/bin/python --state nightly",
        "fxmorph nightly corpus/ --python torch-nightly/bin/python --bisect torch-2.15/bin/python --max-time 2h",
        "fxmorph nightly --no-run --state nightly --site site",
    ),
    "reduce": ("fxmorph reduce a7e8d3 --max-time 30m", "fxmorph reduce --all"),
    "capture": ("fxmorph capture --out captured -- python train.py --steps 2",),
    "init": ("fxmorph init torch-compile-tests",),
    "corpus": ("fxmorph corpus", "fxmorph corpus stats corpus/"),
    "corpus stats": ("fxmorph corpus stats corpus/", "fxmorph corpus stats captured --json"),
    "corpus add": ("fxmorph corpus add new.py captured --to corpus/",),
    "corpus dedupe": ("fxmorph corpus dedupe captured", "fxmorph corpus dedupe captured --remove"),
    "corpus minimise": ("fxmorph corpus minimise corpus/ captured --into small",),
    "seeds": ("fxmorph seeds ops",),
    "seeds generate": ("fxmorph seeds generate --seed 1 --count 200 --out made",),
    "seeds models": ("fxmorph seeds models", "fxmorph seeds models gpt2 resnet --out made"),
    "seeds ops": ("fxmorph seeds ops --json",),
    "doctor": ("fxmorph doctor", "fxmorph doctor --device cuda"),
    "rules": ("fxmorph rules", "fxmorph rules --transforms mine --json"),
    "rules show": ("fxmorph rules show mutate_late_zero",),
    "prove": ("fxmorph prove mine_floor_by_trunc --transforms mine", "fxmorph prove 'algebra_*' --json"),
    "propose": (
        "fxmorph propose --packs packs/mine.jsonl",
        "fxmorph propose --model NAME --task rules --budget 20calls",
        "fxmorph propose --synthesise --budget 10m --out found.jsonl",
    ),
    "check-pass": (
        "fxmorph check-pass passes.py:fold_permutes",
        "fxmorph check-pass mypackage.fusion:FusePass --arg eps=1e-5 --stage post_grad",
    ),
    "passes": ("fxmorph passes --stage joint --kind pass", "fxmorph passes show joint.remove_noop_ops"),
    "passes show": ("fxmorph passes show joint.remove_noop_ops",),
    "coverage": ("fxmorph coverage", "fxmorph coverage --state nightly --json"),
    "explain": ("fxmorph explain 17", "fxmorph explain corpus/seeds/attention_causal_tril.py --dtype float16"),
    "cases": ("fxmorph cases --verdict finding", "fxmorph cases --seed 'attention_*' --rule 'mutate_*' --json"),
    "findings": ("fxmorph findings", "fxmorph findings --json"),
    "show": ("fxmorph show a7e8d3",),
    "report": ("fxmorph report", "fxmorph report monday/ tuesday/ --out week.html"),
}
