"""The command line.

Only the body of a command imports the engine, and with it torch: help and usage errors
answer at once.  Exit codes: 0 no finding, 1 findings, 2 usage or configuration, 3 internal
error or disk trouble, 4 an unsound rewrite, 5 nothing ran, 130 interrupted.
"""

from __future__ import annotations

import json as json_format
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NoReturn, TextIO

import typer

from fxmorph import __version__
from fxmorph.core.config import ConfigError, Settings, load_settings
from fxmorph.core.units import Stage, UnitKind
from fxmorph.model import Level

USAGE, INTERNAL, NOTHING_RAN, INTERRUPTED = 2, 3, 5, 130

app = typer.Typer(
    name="fxmorph",
    help="Find silent miscompilations in torch.compile.  Seeds are programs: fxmorph executes them.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run the command line and exit; nothing but the codes above leaves here."""
    try:
        app()
    except KeyboardInterrupt:
        _fail("interrupted", INTERRUPTED)
    except Exception as error:
        _fail(f"internal error: {type(error).__name__}: {error}", INTERNAL, error)


def _fail(message: str, code: int, error: Exception | None = None) -> NoReturn:
    print("fxmorph: " + " ".join(message.split()), file=sys.stderr)
    if error is not None:
        import traceback

        traceback.print_exception(error, file=sys.stderr)
    raise SystemExit(code)


@contextmanager
def _one_line_errors() -> Iterator[None]:
    """What the user can mend is one line on stderr and a code; the rest passes on."""
    try:
        yield
    except ConfigError as error:
        _fail(str(error), USAGE)
    except KeyboardInterrupt:
        _fail("interrupted; what was judged is stored, --resume goes on", INTERRUPTED)
    except Exception as error:
        # Late, since most commands never get here.
        from fxmorph.core.seeds import SeedError
        from fxmorph.core.store import DiskError, StoreError
        from fxmorph.rules import RuleError

        if isinstance(error, DiskError):
            _fail(str(error), INTERNAL)
        if isinstance(error, (StoreError, RuleError, SeedError)):
            _fail(str(error), USAGE)
        raise


def _settings(unset: dict[str, Any] | None = None, **command_line: Any) -> Settings:
    return load_settings(command_line, Path.cwd(), os.environ, unset)


def _check_paths(settings: Settings) -> None:
    """Refuse paths that hold nothing to run before torch is imported."""
    if settings.cases is not None:
        if settings.paths:
            _fail("--cases names its seeds itself: give no paths with it", USAGE)
        if not Path(settings.cases).is_file():
            _fail(f"--cases {settings.cases}: no such file", USAGE)
    elif not settings.paths and not settings.resume:
        _fail("no paths given: name a corpus folder, a seed file, or module.py:Name", USAGE)
    for path in settings.paths:
        file, colon, _ = path.partition(".py:")
        if not Path(file + ".py" if colon else path).exists():
            _fail(f"{path}: no such file or folder", USAGE)
        if colon:
            from fxmorph.core.seeds import find_seeds

            find_seeds([path])  # refuses what the file does not define
    for folder in settings.transforms:
        if not Path(folder).is_dir():
            _fail(f"--transforms {folder}: no such folder", USAGE)
    if settings.baseline is not None and not Path(settings.baseline).is_file():
        _fail(f"--baseline {settings.baseline}: no such file", USAGE)
    if settings.paths and not any(map(_may_hold_seeds, settings.paths)):
        _fail(f"no seeds in {', '.join(settings.paths)}", NOTHING_RAN)


def _may_hold_seeds(path: str) -> bool:
    where = Path(path)
    if not where.is_dir():
        return True
    files = (file for suffix in ("*.py", "*.pt2") for file in where.rglob(suffix))
    return any(not file.name.startswith(("_", ".")) for file in files)


@contextmanager
def _reporting(
    settings: Settings, people: Callable[[TextIO], Any] | None = None, page: bool = False
) -> Iterator[Callable[[Any], None]]:
    """A function that tells every reporter; with --json the text of ``people``'s reporter goes to stderr.

    ``page``: ``report.html`` is written into the state folder at the end.
    """
    from fxmorph.report.jsonlines import JsonLines
    from fxmorph.report.terminal import Reporter, Terminal

    stream = sys.stderr if settings.json else sys.stdout
    told = people(stream) if people else Terminal(stream, quiet=settings.quiet, verbose=settings.verbose)
    reporters: list[Reporter] = [told]
    if settings.json:
        reporters.append(JsonLines())
    reporters += _report_files(settings)
    if page:
        from fxmorph.core.store import PAGE
        from fxmorph.report.html import HtmlReport

        reporters.append(HtmlReport(settings.state_dir, settings.state_dir / PAGE))

    def emit(event: Any) -> None:
        for reporter in reporters:
            reporter.handle(event)

    try:
        yield emit
    finally:
        for reporter in reporters:
            reporter.close()


def _report_files(settings: Settings) -> list[Any]:
    """The reporters that ``--report`` asks for."""
    from fxmorph.report.github import GitHub
    from fxmorph.report.junit import JUnit
    from fxmorph.report.sarif import Sarif

    made: list[Any] = []
    for text in settings.report:
        form, _, file = text.partition("=")
        if file and not Path(file).absolute().parent.is_dir():
            _fail(f"--report {text}: no folder {Path(file).parent}", USAGE)
        made.append({"junit": JUnit, "sarif": Sarif}[form](Path(file)) if file else GitHub())
    return made


def _version(wanted: bool) -> None:
    if wanted:
        from importlib import metadata

        try:
            torch = f" (torch {metadata.version('torch')})"
        except metadata.PackageNotFoundError:
            torch = " (torch is not installed)"
        print(f"fxmorph {__version__}{torch}")
        raise typer.Exit


@app.callback()
def _top(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


# Options that several commands share.  All are text or flags here and None where not given,
# so that config.py alone knows values, defaults and precedence.
Text = str | None
Flag = bool | None
Paths = Annotated[
    list[str] | None, typer.Argument(metavar="PATHS", help="Corpus folders, seed files (.py, .pt2), module.py:Name.")
]
Seed = Annotated[Text, typer.Option("--seed", metavar="N", help="Seed of the campaign [0].")]
Jobs = Annotated[Text, typer.Option("-j", "--jobs", metavar="N", help="Worker processes [0: one per core, at most 8].")]
MaxTime = Annotated[
    Text, typer.Option("--max-time", metavar="TIME", help="Wall time: 900, 90s, 15m, 2h [15m; fuzz: no limit].")
]
MaxCases = Annotated[Text, typer.Option("--max-cases", metavar="N", help="Stop after N cases.")]
CaseTimeout = Annotated[
    Text, typer.Option("--case-timeout", metavar="TIME", help="CPU time that one case may take [120s].")
]
Device = Annotated[Text, typer.Option("--device", metavar="NAMES", help="cpu, cuda, or cpu,cuda [cpu].")]
Backend = Annotated[Text, typer.Option("--backend", metavar="NAME", help="Backend of torch.compile [inductor].")]
Pairs = list[str] | None
Compile = Annotated[
    Pairs, typer.Option("--compile", metavar="K=V,...", help="Arguments of torch.compile, as dynamic=True. Repeatable.")
]
Inductor = Annotated[
    Pairs, typer.Option("--inductor", metavar="K=V,...", help="Settings of torch._inductor.config. Repeatable.")
]
Dynamo = Annotated[
    Pairs, typer.Option("--dynamo", metavar="K=V,...", help="Settings of torch._dynamo.config. Repeatable.")
]
Transforms = Annotated[
    list[str] | None, typer.Option("--transforms", metavar="DIR", help="More rules, as loose files. Repeatable.")
]
Baseline = Annotated[Text, typer.Option("--baseline", metavar="FILE", help="Findings listed there do not count.")]
Cases = Annotated[Text, typer.Option("--cases", metavar="FILE", help="Judge the cases listed there and no others.")]
GraphLevel = Annotated[Text, typer.Option("--level", metavar="torch|aten", help="Graphs that rules rewrite [torch].")]
Dtype = Annotated[
    Text, typer.Option("--dtype", metavar="NAME", help="Convert floating-point inputs and parameters, as bfloat16.")
]
Context = Annotated[Text, typer.Option("--context", metavar="inference|autocast", help="Run everything under it.")]
Passes = Annotated[
    list[str] | None,
    typer.Option("--pass", metavar="NAME", help="Units of Inductor alone: a name, a glob, a stage or a kind."),
]
NoRewrites = Annotated[Flag, typer.Option("--no-rewrites", help="Judge seeds as they are.")]
All = Annotated[Flag, typer.Option("--all", help="Of a corpus take regressions and proposals too.")]
Propose = Annotated[
    Flag, typer.Option("--propose", help="Use the proposals that were admitted: rules, seeds, recipes.")
]
EdgeCases = Annotated[Flag, typer.Option("--edge-cases", help="Show signed zeros, NaN inputs and dtype limits too.")]
Threads = Annotated[
    Text, typer.Option("--threads", metavar="N", help="Threads of each worker [1; of a campaign every fourth case 4].")
]
Quick = Annotated[Flag, typer.Option("--quick", help="Judge on the seeds' own values alone, in their own layout.")]
FailOn = Annotated[Text, typer.Option("--fail-on", metavar="new|known", help="known: known findings fail the run too.")]
Resume = Annotated[Flag, typer.Option("--resume", help="Go on with the run that did not finish.")]
State = Annotated[Text, typer.Option("--state", metavar="DIR", help="State folder [.fxmorph].")]
Reports = Annotated[
    list[str] | None,
    typer.Option("--report", metavar="FORM", help="junit=FILE, sarif=FILE or github (annotations). Repeatable."),
]
Json = Annotated[Flag, typer.Option("--json", help="Event lines on stdout, text for people on stderr.")]
Quiet = Annotated[Flag, typer.Option("-q", "--quiet", help="Findings and the last line only.")]
Verbose = Annotated[int, typer.Option("-v", "--verbose", count=True, show_default=False, help="Say more; -vv all.")]


@app.command("fuzz", help="The same without end: go on until --max-time or Ctrl-C; --resume goes on later.")
@app.command("run")
def run(
    command: typer.Context,
    paths: Paths = None,
    seed: Seed = None,
    jobs: Jobs = None,
    max_time: MaxTime = None,
    max_cases: MaxCases = None,
    case_timeout: CaseTimeout = None,
    device: Device = None,
    backend: Backend = None,
    compile: Compile = None,
    inductor: Inductor = None,
    dynamo: Dynamo = None,
    dtype: Dtype = None,
    context: Context = None,
    threads: Threads = None,
    transforms: Transforms = None,
    cases: Cases = None,
    level: GraphLevel = None,
    no_rewrites: NoRewrites = None,
    passes: Passes = None,
    all: All = None,
    propose: Propose = None,
    baseline: Baseline = None,
    fail_on: FailOn = None,
    edge_cases: EdgeCases = None,
    resume: Resume = None,
    state: State = None,
    report: Reports = None,
    json: Json = None,
    quiet: Quiet = None,
    verbose: Verbose = 0,
) -> None:
    """Rewrite seeds into variants, compile both, report what is miscompiled."""
    with _one_line_errors():
        settings = _settings(
            {"max_time": float("inf")} if command.info_name == "fuzz" else None,
            paths=paths,
            seed=seed,
            jobs=jobs,
            max_time=max_time,
            max_cases=max_cases,
            case_timeout=case_timeout,
            device=device,
            backend=backend,
            compile=compile,
            inductor=inductor,
            dynamo=dynamo,
            dtype=dtype,
            context=context,
            threads=threads,
            transforms=transforms,
            cases=cases,
            level=level,
            rewrites=False if no_rewrites else None,
            passes=passes,
            all=all,
            propose=propose,
            baseline=baseline,
            fail_on=fail_on,
            edge_cases=edge_cases,
            resume=resume,
            state=state,
            report=report,
            json=json,
            quiet=quiet,
            verbose=verbose or None,
        )
        _check_paths(settings)
        if settings.resume and not settings.passes:
            from fxmorph.campaign.resume import unfinished

            with _stored(settings) as store:
                unfinished(store, settings)
        with _reporting(settings, page=True) as emit:
            if settings.passes:
                from fxmorph.campaign.unit_run import run_passes

                code = run_passes(settings, emit)
            else:
                from fxmorph.campaign.case_run import run_campaign

                code = run_campaign(settings, emit)
    raise typer.Exit(code)


@app.command()
def check(
    paths: Paths = None,
    seed: Seed = None,
    jobs: Jobs = None,
    max_time: MaxTime = None,
    case_timeout: CaseTimeout = None,
    device: Device = None,
    backend: Backend = None,
    compile: Compile = None,
    inductor: Inductor = None,
    dynamo: Dynamo = None,
    dtype: Dtype = None,
    context: Context = None,
    threads: Threads = None,
    quick: Quick = None,
    all: All = None,
    baseline: Baseline = None,
    fail_on: FailOn = None,
    edge_cases: EdgeCases = None,
    state: State = None,
    report: Reports = None,
    json: Json = None,
    quiet: Quiet = None,
    verbose: Verbose = 0,
) -> None:
    """Judge seeds as they are, one line each."""
    with _one_line_errors():
        settings = _settings(
            paths=paths,
            seed=seed,
            jobs=jobs,
            max_time=max_time,
            case_timeout=case_timeout,
            device=device,
            backend=backend,
            compile=compile,
            inductor=inductor,
            dynamo=dynamo,
            dtype=dtype,
            context=context,
            threads=threads,
            quick=quick,
            rewrites=False,
            all=all,
            baseline=baseline,
            fail_on=fail_on,
            edge_cases=edge_cases,
            resume=False,
            state=state,
            report=report,
            json=json,
            quiet=quiet,
            verbose=verbose or None,
        )
        _check_paths(settings)
        from fxmorph.campaign.case_run import check_seeds

        with _reporting(settings) as emit:
            code = check_seeds(settings, emit)
    raise typer.Exit(code)


@app.command()
def replay(
    ids: Annotated[list[str] | None, typer.Argument(metavar="ID", help="Findings, by the start of the id.")] = None,
    all: Annotated[bool, typer.Option("--all", help="Every finding that is stored.")] = False,
    jobs: Jobs = None,
    state: State = None,
    verbose: Verbose = 0,
) -> None:
    """Run stored findings again: FIXED, FAILS or ERROR."""
    with _one_line_errors():
        settings = _settings(jobs=jobs, state=state, verbose=verbose or None)
        if bool(ids) == all:
            _fail("name findings by id, or say --all (`fxmorph findings` lists them)", USAGE)
        with _stored(settings) as store:
            for prefix in ids or ():
                store.finding(prefix)
            if all and not store.findings():
                _fail(f"no findings in {settings.state}: nothing to replay", NOTHING_RAN)
        from fxmorph.triage.folder.confirm import replay as replay_findings

        code = replay_findings(settings, list(ids or ()), all, _print_line)
    raise typer.Exit(code)


@app.command()
def reduce(
    ids: Annotated[list[str] | None, typer.Argument(metavar="ID", help="Findings, by the start of the id.")] = None,
    all: Annotated[bool, typer.Option("--all", help="All that runs left for later.")] = False,
    python: Annotated[
        list[str] | None,
        typer.Option("--python", metavar="PATH", help="Instead run repro.py by this interpreter too. Repeatable."),
    ] = None,
    max_time: MaxTime = None,
    jobs: Jobs = None,
    state: State = None,
    json: Json = None,
    quiet: Quiet = None,
    verbose: Verbose = 0,
) -> None:
    """Blame and reduce what a run had no time for; reduce stored findings further."""
    with _one_line_errors():
        settings = _settings(max_time=max_time, jobs=jobs, state=state, json=json, quiet=quiet, verbose=verbose or None)
        if bool(ids) == all:
            _fail("name findings by id, or say --all (`fxmorph findings` lists them)", USAGE)
        with _stored(settings) as store:
            for prefix in ids or ():
                store.finding(prefix)
        if python:
            from fxmorph.core.versions import versions
            from fxmorph.triage.folder.releases import try_releases

            tried = try_releases(settings, ids or (), python, versions(), _print_line)
            raise typer.Exit(0 if tried else NOTHING_RAN)
        from fxmorph.commands.reduce import reduce_findings

        with _reporting(settings) as emit:
            code = reduce_findings(settings, list(ids or ()), emit)
        if code == NOTHING_RAN:
            print("fxmorph: nothing was reduced", file=sys.stderr)
    raise typer.Exit(code)


@app.command(context_settings={"allow_interspersed_args": False})
def capture(
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND...", help="The program, as python script.py ...")],
    out: Annotated[str, typer.Option("--out", metavar="DIR", help="Where the seeds go.")] = "captured",
    window: Annotated[
        int, typer.Option("--window", metavar="N", min=2, help="Cut graphs of more than N nodes into windows of N.")
    ] = 40,
) -> None:
    """Record the graphs that a program compiles, as seeds."""
    with _one_line_errors():
        from fxmorph.programs.harvest import capture_program

        code = capture_program(list(command), Path(out), window)
    raise typer.Exit(code)


@app.command()
def doctor(device: Device = None, backend: Backend = None, transforms: Transforms = None, state: State = None) -> None:
    """Say what this machine and this torch offer, and show that a planted fault is seen."""
    with _one_line_errors():
        settings = _settings(device=device, backend=backend, transforms=transforms, state=state)
        from fxmorph.commands.doctor import run_doctor

        code = run_doctor(settings, _print_line)
    raise typer.Exit(code)


rules_app = typer.Typer(help="List the rules, with the level that was shown of each.")
app.add_typer(rules_app, name="rules")


@rules_app.callback(invoke_without_command=True)
def rules(context: typer.Context, transforms: Transforms = None, json: Json = None) -> None:
    """List the rules, with the level that was shown of each."""
    if context.invoked_subcommand is not None:
        return
    with _one_line_errors():
        settings = _settings(transforms=transforms, json=json)
        from fxmorph.events import RuleListed
        from fxmorph.prove.levels import levels_of, shipped_levels
        from fxmorph.rules import load_rules

        table = shipped_levels()

        found = list(load_rules([Path(folder) for folder in settings.transforms]))
        if settings.json:
            for rule in found:
                preserves = tuple(sorted(rule.preserves))
                claim = Level(rule.claim).value
                listed = RuleListed(
                    rule.id, claim, tuple(rule.dtypes), preserves, rule.targets, rule.site, rule.source, rule.doc,
                    levels_of(rule, table),
                )  # fmt: skip
                _print_line(json_format.dumps(listed.to_json()))
        else:
            rows = [
                (
                    r.id,
                    str(r.claim),
                    _levels(levels_of(r, table)),
                    ",".join(r.dtypes),
                    ",".join(sorted(r.preserves)),
                    ",".join(r.targets),
                )
                for r in found
            ]
            _print_columns(("rule", "claim", "shown", "dtypes", "preserves", "targets"), rows)
            _print_line(f"{len(found)} rules")


@rules_app.command("show")
def show_rule(
    name: Annotated[str, typer.Argument(metavar="NAME", help="As `fxmorph rules` lists it.")],
    transforms: Transforms = None,
    state: State = None,
    json: Json = None,
) -> None:
    """Say what a rule does and why, its two sides, what it takes and keeps, and what was shown of it."""
    with _one_line_errors():
        settings = _settings(transforms=transforms, state=state, json=json)
        from fxmorph.rules import load_rules, refuse_unknown

        if not settings.transforms:
            refuse_unknown([name])
        from fxmorph.prove.certificates import Certificates
        from fxmorph.prove.levels import shipped_levels
        from fxmorph.report.rule_page import sheet, shown

        rule = load_rules([Path(folder) for folder in settings.transforms])[name]
        told = shown(rule, shipped_levels(), Certificates(settings.state_dir / "proofs"))
        if settings.json:
            _print_line(json_format.dumps(told.to_json(), ensure_ascii=False))
        else:
            for line in sheet(told):
                _print_line(line)


@app.command()
def prove(
    names: Annotated[list[str] | None, typer.Argument(metavar="[RULE...]", help="Rules, by id or glob.")] = None,
    all: Annotated[bool, typer.Option("--all", help="Every rule.")] = False,
    conformance: Annotated[
        bool, typer.Option("--conformance", help="Compare the prover's model of each operator with eager instead.")
    ] = False,
    solver: Annotated[
        str, typer.Option("--solver", metavar="cvc5|bitwuzla", help="Ask this solver too; disagreement is an error.")
    ] = "",
    record: Annotated[str, typer.Option("--record", metavar="FILE", help="Write the levels there too.")] = "",
    device: Annotated[str | None, typer.Option("--device", help="Of --conformance: cpu or cuda.")] = None,
    transforms: Transforms = None,
    jobs: Jobs = None,
    state: State = None,
    json: Json = None,
    quiet: Quiet = None,
) -> None:
    """Prove rules, or show inputs on which they are wrong; exit code 4 where one is refuted."""
    with _one_line_errors():
        settings = _settings(transforms=transforms, jobs=jobs, state=state, json=json, quiet=quiet, device=device)
        if sum((bool(names), all, conformance)) != 1:
            _fail("name rules by id or glob, or say --all, or --conformance (`fxmorph rules` lists them)", USAGE)
        if solver not in ("", "cvc5", "bitwuzla"):
            _fail(f"--solver {solver}: not cvc5 or bitwuzla", USAGE)
        if not settings.transforms:
            from fxmorph.rules import refuse_unknown

            refuse_unknown(name for name in names or () if not any(c in name for c in "*?["))
        from fxmorph.commands.prove import check_conformance, prove_rules
        from fxmorph.report.proof_table import ProofTable

        table = ProofTable(_print_line, settings.json, settings.quiet)
        if conformance:
            code = check_conformance(settings.device, table.handle)
        else:
            code = prove_rules(settings, names or (), solver, Path(record) if record else None, table.handle)
        table.close()
    raise typer.Exit(code)


@app.command()
def propose(
    command: typer.Context,
    bugs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[BUG...]", help="Of --task from-bug: files or folders with an issue's text."),
    ] = None,
    task: Annotated[
        list[str] | None, typer.Option("--task", metavar="NAME", help="rules, recipes, seeds or from-bug. Repeatable.")
    ] = None,
    target: Annotated[str, typer.Option("--target", metavar="GLOB", help="A unit, units or a bug class.")] = "",
    packs: Annotated[
        list[str] | None,
        typer.Option("--packs", metavar="PATH", help="Packs or folders of them [those that come with fxmorph]."),
    ] = None,
    record: Annotated[str, typer.Option("--record", metavar="FILE", help="Write outcomes of packs there too.")] = "",
    fresh: Annotated[bool, typer.Option("--fresh", help="Decide again about what was decided before.")] = False,
    model: Annotated[Text, typer.Option("--model", metavar="NAME", help="Ask this model [OPENAI_MODEL].")] = None,
    base_url: Annotated[
        Text, typer.Option("--base-url", metavar="URL", help="Its server [OPENAI_BASE_URL, else OpenAI's].")
    ] = None,
    budget: Annotated[
        Text,
        typer.Option(
            "--budget",
            metavar="LIMIT",
            help="30m; of a model also 5USD, 200calls; with --synthesise CPU time [15m; 20calls; 10m].",
        ),
    ] = None,
    price: Annotated[
        Text, typer.Option("--price", metavar="IN/OUT", help="USD for a million tokens of prompt and of answer.")
    ] = None,
    at_once: Annotated[int, typer.Option("--at-once", metavar="N", min=1, help="Requests at a time.")] = 4,
    timeout: Annotated[Text, typer.Option("--timeout", metavar="TIME", help="For a part of an answer [60s].")] = None,
    prompts: Annotated[
        Text, typer.Option("--prompts", metavar="DIR", help="Prompts of your own: rule.md, seed.md, ...")
    ] = None,
    traffic: Annotated[
        Text, typer.Option("--traffic", metavar="FILE", help="Write prompts and answers there too.")
    ] = None,
    replay: Annotated[
        Text, typer.Option("--replay", metavar="FILE", help="Take the answers from there and ask no server.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the last session.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the prompts and ask nobody.")] = False,
    synthesise: Annotated[
        bool, typer.Option("--synthesise", help="Find rules by enumeration; --budget is CPU time [10m].")
    ] = False,
    ops: Annotated[str, typer.Option("--ops", metavar="NAMES", help="Operators to synthesise with [30].")] = "",
    out: Annotated[str, typer.Option("--out", metavar="FILE", help="The pack to write the found rules to.")] = "",
    seed: Seed = None,
    transforms: Transforms = None,
    jobs: Jobs = None,
    state: State = None,
    json: Json = None,
    quiet: Quiet = None,
    verbose: Verbose = 0,
) -> None:
    """Put proposals of packs, or of a language model, through the gate; say what became of each.

    A model is asked where one is named; its server is OPENAI_BASE_URL, the key OPENAI_API_KEY.
    """
    from fxmorph.propose.model.options import Asked, read_online, task_of, time_of

    if synthesise:
        with _one_line_errors():
            _check_synthesise(command)
            settings = _settings(seed=seed, max_time=time_of(budget or "10m"), json=json, quiet=quiet)
            code = _synthesise(settings, ops, Path(out) if out else None)
        raise typer.Exit(code)
    with _one_line_errors():
        asked = Asked(
            model, base_url, budget, price, timeout, at_once, prompts, traffic, replay, resume, dry_run,
            tuple(bugs or ()),
        )  # fmt: skip
        tasks = [task_of(word) for word in task or ()]
        online = None if packs and not asked.online else read_online(asked, os.environ)
        if online is not None and (packs or record or fresh):
            _fail("--packs, --record and --fresh are for packs: leave them out to ask a model", USAGE)
        settings = _settings(
            transforms=transforms, jobs=jobs, state=state, json=json, quiet=quiet, verbose=verbose or None,
            max_time=time_of(budget) if online is None else None,
        )  # fmt: skip
        if ops or out:
            _fail("--ops and --out go with --synthesise", USAGE)
        for pack in packs or ():
            if not Path(pack).exists():
                _fail(f"--packs {pack}: no such file or folder", USAGE)
        if record and not (Path(record).parent.is_dir() and not Path(record).is_dir()):
            _fail(f"--record {record}: no file can be there", USAGE)
        if online is not None and online.dry_run:
            from fxmorph.propose.model.online import dry_run as print_prompts

            raise typer.Exit(print_prompts(settings, online, tasks, target, _print_line))
        from fxmorph.report.gate_table import ProposalTable

        with _reporting(settings, lambda to: ProposalTable(to, settings.quiet, bool(settings.verbose))) as emit:
            if online is not None:
                from fxmorph.propose.model.online import propose as ask_model

                code = ask_model(settings, online, tasks, target, emit)
            else:
                from fxmorph.commands.propose import judge_packs

                where = Path(record) if record else None
                code = judge_packs(settings, [Path(p) for p in packs or ()], tasks, target, fresh, where, emit)
    raise typer.Exit(code)


def _check_synthesise(command: typer.Context) -> None:
    """Refuse options that only packs and models take."""
    takes = {"synthesise", "ops", "out", "budget", "seed", "json", "quiet"}
    for parameter in command.command.params:
        source = command.get_parameter_source(parameter.name or "")
        if parameter.name not in takes and source is not None and source.name == "COMMANDLINE":
            word = parameter.opts[0] if parameter.opts[0].startswith("-") else "a bug"
            _fail(f"--synthesise asks no model and reads no packs: {word} does not go with it", USAGE)


def _synthesise(settings: Settings, ops: str, out: Path | None) -> int:
    from fxmorph.propose.synthesis.form_operators import chosen_operators

    try:
        names = chosen_operators(ops)
    except ValueError as error:
        _fail(f"--ops {error}", USAGE)
    if out is not None and not out.parent.is_dir():
        _fail(f"--out {out}: no folder {out.parent}", USAGE)
    from fxmorph.commands.synthesise import synthesise_rules
    from fxmorph.report.synthesis_lines import SynthesisLines

    with _reporting(settings, lambda to: SynthesisLines(to, settings.quiet)) as emit:
        return synthesise_rules(names, settings.max_time, settings.seed, out, emit)


@app.command("check-pass")
def check_pass(
    name: Annotated[str, typer.Argument(metavar="PASS", help="module:NAME, file.py:NAME, or the name of a plug-in.")],
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="PATHS", help="Seeds, as for run [the corpus that comes with fxmorph]."),
    ] = None,
    stage: Annotated[
        str, typer.Option("--stage", metavar="NAME", help="Graphs it is given: pre_grad, joint or post_grad.")
    ] = "post_grad",
    every: Annotated[bool, typer.Option("--all", help="Go on after the first finding.")] = False,
    max_time: MaxTime = None,
    state: State = None,
    json: Json = None,
    quiet: Quiet = None,
    verbose: Verbose = 0,
) -> None:
    """Check an FX pass of your own on the graphs of a corpus: right, wrong with an example, proved."""
    with _one_line_errors():
        settings = _settings(
            paths=paths, max_time=max_time, state=state, json=json, quiet=quiet, verbose=verbose or None
        )
        if stage not in ("pre_grad", "joint", "post_grad"):
            _fail(f"--stage {stage}: want pre_grad, joint or post_grad", USAGE)
        if paths:
            _check_paths(settings)
        from fxmorph.inductor.own.check import check_pass as check
        from fxmorph.report.pair_lines import PairLines

        with _reporting(settings, lambda to: PairLines(to, settings.quiet, bool(settings.verbose))) as emit:
            code = check(name, Stage(stage), settings, every, emit)
    raise typer.Exit(code)


passes_app = typer.Typer(help="List the passes, pattern entries, decompositions and lowerings of Inductor.")
app.add_typer(passes_app, name="passes")


@passes_app.callback(invoke_without_command=True)
def passes(
    context: typer.Context,
    stage: Annotated[str, typer.Option("--stage", metavar="NAME", help="Those of one stage.")] = "",
    kind: Annotated[str, typer.Option("--kind", metavar="NAME", help="pass, entry, decomposition or lowering.")] = "",
    state: State = None,
    json: Json = None,
) -> None:
    """List the passes, pattern entries, decompositions and lowerings of the installed torch."""
    if context.invoked_subcommand is not None:
        return
    with _one_line_errors():
        _one_of("--stage", stage, Stage)
        _one_of("--kind", kind, UnitKind)
        from fxmorph.commands.passes import list_units
        from fxmorph.report.jsonlines import JsonLines

        settings = _settings(state=state)
        list_units(settings, stage, kind, JsonLines().handle if json else None, _print_line)


@app.command()
def coverage(state: State = None, json: Json = None) -> None:
    """Say which units of Inductor fired in the last run; of one with --pass, why the others did not too."""
    with _one_line_errors():
        settings = _settings(state=state, json=json)
        from fxmorph.core.last_run import last_coverage

        with _stored(settings) as store:
            found = last_coverage(store)
        if found is None:
            _fail(f"no run in {settings.state} says which units fired (fxmorph run corpus/)", USAGE)
        from fxmorph.commands.passes import show_coverage

        show_coverage(*found, settings.json, _print_line)


@passes_app.command("show")
def show_pass(name: Annotated[str, typer.Argument(metavar="NAME", help="As `fxmorph passes` lists it.")]) -> None:
    """Say where a unit is written, what it matches, and how to do without it."""
    with _one_line_errors():
        from fxmorph.commands.passes import show_unit

        show_unit(name, _print_line)


def _one_of(option: str, value: str, names: type[StrEnum]) -> None:
    if value and value not in list(names):
        _fail(f"{option} {value}: want one of {', '.join(names)}", USAGE)


@app.command()
def explain(
    case: Annotated[str, typer.Argument(metavar="CASE", help="Its id, its number in the last run, or a seed file.")],
    backend: Backend = None,
    compile: Compile = None,
    inductor: Inductor = None,
    dynamo: Dynamo = None,
    dtype: Dtype = None,
    context: Context = None,
    threads: Threads = None,
    quick: Quick = None,
    device: Device = None,
    transforms: Transforms = None,
    state: State = None,
) -> None:
    """Judge one case again and say every step of the judgement."""
    with _one_line_errors():
        settings = _settings(
            backend=backend,
            compile=compile,
            inductor=inductor,
            dynamo=dynamo,
            dtype=dtype,
            context=context,
            threads=threads,
            quick=quick,
            rewrites=False,
            device=device,
            transforms=transforms,
            state=state,
        )
        from fxmorph.commands.explain import explain as explain_case

        code = explain_case(settings, case, _print_line)
    raise typer.Exit(code)


@app.command()
def findings(
    duplicates: Annotated[bool, typer.Option("--duplicates", help="Show duplicates too.")] = False,
    state: State = None,
    json: Json = None,
) -> None:
    """List the findings that are stored."""
    with _one_line_errors():
        settings = _settings(state=state, json=json)
        with _stored(settings) as store:
            found = [(finding, *store.place(finding.id)) for finding in store.findings(duplicates=duplicates)]
        if settings.json:
            from fxmorph.events import FindingMade

            for finding, folder, duplicate_of in found:
                made = FindingMade(finding, folder, finding.known, duplicate_of)
                _print_line(json_format.dumps(made.to_json(), ensure_ascii=False))
        elif found:
            rows = [
                (
                    f.id, ",".join(f.kinds), f.stage, f.unit, "yes" if f.confirmed else "no", f.known, f.seed,
                    f.recipe or "(as it is)",
                )
                for f, _, _ in found
            ]
            _print_columns(("id", "kinds", "stage", "unit", "confirmed", "known", "seed", "recipe"), rows)
        else:
            _print_line(f"no findings in {settings.state}")


@app.command()
def show(id: Annotated[str, typer.Argument(metavar="ID", help="The start of the id.")], state: State = None) -> None:
    """Print the report of a finding."""
    with _one_line_errors():
        settings = _settings(state=state)
        with _stored(settings) as store:
            finding, folder = store.finding(id)
            header = store.last_run()
        written = Path(folder) / "issue.md"
        if written.is_file():
            text = written.read_text(encoding="utf-8")
        else:
            from fxmorph.triage.folder.issue import issue_text

            text = issue_text(finding, (header[1] if header else {}).get("versions", {}), finding.ladder)
        _print_line(text.rstrip("\n"))


@app.command("report")
def write_report(
    states: Annotated[
        list[str] | None, typer.Argument(metavar="[STATE...]", help="State folders of runs; theirs are merged.")
    ] = None,
    out: Annotated[str, typer.Option("--out", metavar="FILE", help="The page [STATE/report.html].")] = "",
    reports: Reports = None,
    state: State = None,
) -> None:
    """Write report.html for the runs of one or more state folders."""
    with _one_line_errors():
        settings = _settings(state=state, report=reports)
        folders = [Path(given) for given in states or [settings.state]]
        from fxmorph.core.store import PAGE
        from fxmorph.report.html import write_report as write

        if out and not Path(out).absolute().parent.is_dir():
            _fail(f"--out {out}: no folder {Path(out).parent}", USAGE)
        file = Path(out) if out else folders[0] / PAGE if len(folders) == 1 else Path(PAGE)
        files = _report_files(settings)
        written = write(folders, file)
        from fxmorph.events import FindingMade

        for reporter in files:
            for card in written.cards:
                reporter.handle(FindingMade(card.finding, str(card.folder), card.known))
            reporter.close()
        _print_line(f"{len(written.runs)} runs, {written.cases} cases, {len(written.cards)} findings: {file}")


def _levels(levels: dict[str, str]) -> str:
    """Each level with the dtypes that it was shown for, or the level alone where it is all of them."""
    by_level: dict[str, list[str]] = {}
    for dtype, level in levels.items():
        by_level.setdefault(level, []).append(dtype)
    if len(by_level) < 2:
        return next(iter(by_level), "not proved")
    return "; ".join(f"{level}: {','.join(dtypes)}" for level, dtypes in by_level.items())


@contextmanager
def _stored(settings: Settings) -> Iterator[Any]:
    from fxmorph.core.store import Store

    with Store(settings.state_dir, write=False) as store:
        yield store


def _print_line(line: str) -> None:
    print(line, flush=True)


def _print_columns(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """Columns as wide as their widest cell; the last one is free."""
    widths = [max(len(row[i]) for row in (heads, *rows)) for i in range(len(heads) - 1)]
    for row in (heads, *rows):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        _print_line("  ".join([*cells, row[-1]]).rstrip())
