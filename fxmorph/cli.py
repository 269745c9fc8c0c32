"""The command line: a table of options, the commands, and which options each takes.

Only the body of a command imports the engine, and with it torch: help and usage errors
answer at once.  Exit codes are those of :class:`~fxmorph.core.exits.Exit`.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, ParamSpec

import typer

from fxmorph.commands.help_page import Command, Group, SettingsCommand
from fxmorph.commands.usage import fail, one_line_errors, require_word, settings_of
from fxmorph.core.config import ConfigError, Settings
from fxmorph.core.exits import Exit
from fxmorph.core.units import Stage, UnitKind
from fxmorph.core.versions import UNKNOWN, version_of
from fxmorph.model import Status

Parameters = ParamSpec("Parameters")

app = typer.Typer(
    name="fxmorph",
    cls=Group,
    help="Find silent miscompilations in torch.compile.  Seeds are programs: fxmorph executes them.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
rules_app = typer.Typer(cls=Group, help="List the rules, with the level that was shown of each.")
passes_app = typer.Typer(cls=Group, help="List the passes, pattern entries, decompositions and lowerings of Inductor.")

corpus_app = typer.Typer(cls=Group, help="Keep a corpus small: what it covers, what adds nothing to it.")
seeds_app = typer.Typer(cls=Group, help="Make seeds from other sources than files and programs.", no_args_is_help=True)


def main() -> None:
    """Run the command line and exit; nothing but an :class:`Exit` leaves here."""
    try:
        app()
    except SystemExit as ended:
        _leave(ended)
    except KeyboardInterrupt:
        fail("interrupted", Exit.INTERRUPTED)
    except Exception as error:
        fail(f"internal error: {type(error).__name__}: {error}", Exit.INTERNAL, error)


def _leave(ended: SystemExit) -> None:
    """End without taking torch apart module by module, which takes a second; raises ``ended`` where that is due."""
    if not isinstance(ended.code, int) or "torch" not in sys.modules:
        raise ended
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:  # a reader that went away: Python says so in its own way
        raise ended from None
    os._exit(ended.code)


def _exits(body: Callable[Parameters, int]) -> Callable[Parameters, None]:
    """The command that ends with the exit code that its body returns, or with an error in one line."""

    @wraps(body)
    def command(*arguments: Parameters.args, **options: Parameters.kwargs) -> None:
        with one_line_errors():
            code = body(*arguments, **options)
        raise typer.Exit(code)

    return command


def _settings(given: Mapping[str, Any], *own: str, unset: Mapping[str, Any] | None = None, **fixed: Any) -> Settings:
    """Settings of a command's parameters: of all but its ``own``, and of ``fixed``; raises ``ConfigError``."""
    return settings_of({**{key: value for key, value in given.items() if key not in own}, **fixed}, unset)


def _version(wanted: bool) -> None:
    if wanted:
        own, torch = version_of("fxmorph"), version_of("torch")
        print(f"fxmorph {own} (torch {'is not installed' if torch == UNKNOWN else torch})")
        raise typer.Exit


# The options, each once.  Those of settings are text or flags here and None where not given, so that config.py alone
# knows values, defaults and precedence; in brackets is what config.py takes then.
Text = str | None
Texts = list[str] | None
Flag = bool | None

Version = Annotated[
    bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
]

# -- settings --
Paths = Annotated[
    Texts, typer.Argument(metavar="PATHS", help="Corpus folders, seed files (.py, .pt2), module.py:Name.")
]
OneModel = Annotated[
    list[str], typer.Argument(metavar="module.py:Name", help="A torch.nn.Module, by the name of its class.")
]
ModeOfModel = Annotated[str, typer.Option("--mode", metavar="eval|train", help="How the model runs.")]
Seed = Annotated[Text, typer.Option("--seed", metavar="N", help="Seed of the campaign [0].")]
Jobs = Annotated[
    Text,
    typer.Option(
        "-j",
        "--jobs",
        metavar="N",
        help="Worker processes [0: one per core, at most 8; with --engine ray all CPUs, or GPUs, of the cluster].",
    ),
]
MaxTime = Annotated[
    Text, typer.Option("--max-time", metavar="TIME", help="Wall time: 900, 90s, 15m, 2h [15m; fuzz: no limit].")
]
MaxCases = Annotated[
    Text, typer.Option("--max-cases", metavar="N", help="Stop after N cases; with --shard: N of all shards together.")
]
ShardOf = Annotated[
    Text,
    typer.Option(
        "--shard", metavar="I/N", help="Do the I-th of N parts; --max-time is each part's own. `merge` joins them."
    ),
]
Engine = Annotated[
    Text, typer.Option("--engine", metavar="local|ray", help="Where workers are: here, or on a Ray cluster [local].")
]
CaseTimeout = Annotated[
    Text, typer.Option("--case-timeout", metavar="TIME", help="CPU time that one case may take [120s].")
]
Device = Annotated[Text, typer.Option("--device", metavar="NAMES", help="cpu, cuda, or cpu,cuda [cpu].")]
Backend = Annotated[Text, typer.Option("--backend", metavar="NAME", help="Backend of torch.compile [inductor].")]
Compile = Annotated[
    Texts, typer.Option("--compile", metavar="K=V,...", help="Arguments of torch.compile, as dynamic=True. Repeatable.")
]
Inductor = Annotated[
    Texts, typer.Option("--inductor", metavar="K=V,...", help="Settings of torch._inductor.config. Repeatable.")
]
Dynamo = Annotated[
    Texts, typer.Option("--dynamo", metavar="K=V,...", help="Settings of torch._dynamo.config. Repeatable.")
]
Dtype = Annotated[
    Text, typer.Option("--dtype", metavar="NAME", help="Convert floating-point inputs and parameters, as bfloat16.")
]
Context = Annotated[Text, typer.Option("--context", metavar="inference|autocast", help="Run everything under it.")]
Threads = Annotated[
    Text,
    typer.Option("--threads", metavar="N", help="Threads of programs [1; of some seeds, and of every fourth case, 4]."),
]
Transforms = Annotated[
    Texts, typer.Option("--transforms", metavar="DIR", help="More rules, as loose files. Repeatable.")
]
Oracles = Annotated[Texts, typer.Option("--oracles", metavar="DIR", help="More oracles, as loose files. Repeatable.")]
Cases = Annotated[Text, typer.Option("--cases", metavar="FILE", help="Judge the cases listed there and no others.")]
GraphLevel = Annotated[Text, typer.Option("--level", metavar="torch|aten", help="Graphs that rules rewrite [torch].")]
Rung = Annotated[
    Text,
    typer.Option(
        "--rung", metavar="ir|cpu|cuda", help="ir: interpret all kernels, compile none; cpu, cuda: compile all."
    ),
]
NoRewrites = Annotated[Flag, typer.Option("--no-rewrites", help="Judge seeds as they are.")]
Only = Annotated[
    Texts,
    typer.Option("--only", metavar="SOURCE", help="These alone: seeds, operators, generated programs, passes."),
]
Passes = Annotated[
    Texts, typer.Option("--pass", metavar="NAME", help="Units of Inductor alone: a name, a glob, a stage or a kind.")
]
Quick = Annotated[Flag, typer.Option("--quick", help="Judge on the seeds' own values alone, in their own layout.")]
AllSeeds = Annotated[Flag, typer.Option("--all", help="Of a corpus take regressions and proposals too.")]
Propose = Annotated[
    Flag, typer.Option("--propose", help="Use the proposals that were admitted: rules, seeds, recipes.")
]
Baseline = Annotated[Text, typer.Option("--baseline", metavar="FILE", help="Findings listed there do not count.")]
FailOn = Annotated[Text, typer.Option("--fail-on", metavar="new|known", help="known: known findings fail the run too.")]
EdgeCases = Annotated[Flag, typer.Option("--edge-cases", help="Show signed zeros, NaN inputs and dtype limits too.")]
Resume = Annotated[Flag, typer.Option("--resume", help="Go on with the run that did not finish.")]
State = Annotated[Text, typer.Option("--state", metavar="DIR", help="State folder [.fxmorph].")]
Reports = Annotated[
    Texts, typer.Option("--report", metavar="FORM", help="junit=FILE, sarif=FILE or github (annotations). Repeatable.")
]
Json = Annotated[Flag, typer.Option("--json", help="Event lines on stdout, text for people on stderr.")]
Quiet = Annotated[Flag, typer.Option("-q", "--quiet", help="Findings and the last line only.")]
Verbose = Annotated[int, typer.Option("-v", "--verbose", count=True, show_default=False, help="Say more; -vv all.")]

# -- of stored findings and of reports --
FindingIds = Annotated[Texts, typer.Argument(metavar="ID", help="Findings, by the start of the id.")]
FindingId = Annotated[str, typer.Argument(metavar="ID", help="The start of the id.")]
AllFindings = Annotated[bool, typer.Option("--all", help="Every finding that is stored.")]
AllLeft = Annotated[bool, typer.Option("--all", help="All that runs left for later.")]
Pythons = Annotated[
    Texts, typer.Option("--python", metavar="PATH", help="Instead run repro.py by this interpreter too. Repeatable.")
]
CaseVerdict = Annotated[
    str,
    typer.Option(
        "--verdict", metavar="WORD", help="Those with this verdict, as finding.", autocompletion=lambda: list(Status)
    ),
]
CaseSeed = Annotated[
    str, typer.Option("--seed", metavar="GLOB", help="Those of these seeds: a glob or a part of the path.")
]
CaseRule = Annotated[str, typer.Option("--rule", metavar="GLOB", help="Those with a rewrite by these rules.")]
CaseUnit = Annotated[
    str,
    typer.Option("--unit", metavar="GLOB", help="Those whose compile used these units, or that blame them."),
]
Releases = Annotated[
    Texts, typer.Option("--python", metavar="PATH", help="An interpreter with another release of torch. Repeatable.")
]
AllReleases = Annotated[bool, typer.Option("--all", help="Run it under every one, and not only around the change.")]
Duplicates = Annotated[bool, typer.Option("--duplicates", help="Show duplicates too.")]
Case = Annotated[str, typer.Argument(metavar="CASE", help="Its id, its number in the last run, or a seed file.")]
States = Annotated[Texts, typer.Argument(metavar="[STATE...]", help="State folders of runs; theirs are merged.")]
RunBefore = Annotated[str, typer.Argument(metavar="RUN_A", help="A state folder, or the id of a run in --state.")]
RunAfter = Annotated[str, typer.Argument(metavar="RUN_B", help="The same, of a later release.")]
MergedStates = Annotated[list[str], typer.Argument(metavar="STATE...", help="State folders of runs.")]
MergeTarget = Annotated[str, typer.Option("--into", metavar="DIR", help="State folder that takes them.")]
Page = Annotated[str, typer.Option("--out", metavar="FILE", help="The page [STATE/report.html].")]

# -- of nightly --
TorchPython = Annotated[
    str, typer.Option("--python", metavar="PATH", help="Python of the environment with the torch to test [this one].")
]
ShardCount = Annotated[int, typer.Option("--shards", metavar="N", min=1, help="Parts of the campaign, in turn.")]
NoRun = Annotated[
    bool, typer.Option("--no-run", help="Run no shard: take the runs that were merged into the state since.")
]
OtherReleases = Annotated[
    Texts, typer.Option("--bisect", metavar="PATH", help="Python with another release, for new findings. Repeatable.")
]
SiteFolder = Annotated[str, typer.Option("--site", metavar="DIR", help="Where the pages go [STATE/site].")]
IssueList = Annotated[
    str, typer.Option("--issues", metavar="FILE", help="Public issues and their states [STATE/issues.toml].")
]

# -- of capture --
Program = Annotated[list[str], typer.Argument(metavar="-- COMMAND...", help="The program, as python script.py ...")]
SeedFolder = Annotated[str, typer.Option("--out", metavar="DIR", help="Where the seeds go.")]
Window = Annotated[
    int, typer.Option("--window", metavar="N", min=2, help="Cut graphs of more than N nodes into windows of N.")
]

# -- of corpus --
CorpusPaths = Annotated[
    Texts,
    typer.Argument(metavar="[PATH...]", help="Corpus folders and seed files [the corpus that comes with fxmorph]."),
]
CorpusSeeds = Annotated[list[str], typer.Argument(metavar="PATH...", help="Corpus folders and seed files.")]
CorpusTarget = Annotated[str, typer.Option("--to", metavar="DIR", help="The corpus; made where it is missing.")]
CorpusFolder = Annotated[str, typer.Option("--into", metavar="DIR", help="A new or empty folder.")]
KeepAll = Annotated[bool, typer.Option("--keep-all", help="Take what adds nothing too, unless the same file is there.")]
RemoveSpare = Annotated[bool, typer.Option("--remove", help="Delete all but the first of each; never a regression.")]
AllRegressions = Annotated[Flag, typer.Option("--all", help="Of a corpus take regressions too.")]

# -- of init and seeds --
Scaffold = Annotated[str, typer.Argument(metavar="[DIR]", help="Where; made where it is missing.")]
ProgramCount = Annotated[int, typer.Option("--count", metavar="K", min=1, help="How many.")]
FirstProgram = Annotated[int, typer.Option("--first", metavar="N", min=0, help="The number of the first one.")]
LongPrograms = Annotated[bool, typer.Option("--long", help="Programs of 70 operators: views, loops, index arithmetic.")]
ProgramFolder = Annotated[str, typer.Option("--out", metavar="DIR", help="Write files there [print them].")]
Architectures = Annotated[Texts, typer.Argument(metavar="[NAME...]", help="These alone, as it lists them [all].")]
ModelFolder = Annotated[str, typer.Option("--out", metavar="DIR", help="Write seeds there [list the architectures].")]

# -- of rules and passes --
RuleName = Annotated[str, typer.Argument(metavar="NAME", help="As `fxmorph rules` lists it.")]
RuleNames = Annotated[Texts, typer.Argument(metavar="[RULE...]", help="Rules, by id or glob.")]
AllRules = Annotated[bool, typer.Option("--all", help="Every rule.")]
Conformance = Annotated[
    bool, typer.Option("--conformance", help="Compare the prover's model of each operator with eager instead.")
]
Solver = Annotated[
    str, typer.Option("--solver", metavar="cvc5|bitwuzla", help="Ask this solver too; disagreement is an error.")
]
Recheck = Annotated[
    bool,
    typer.Option("--recheck", help="Decide proofs again: queries by z3 and cvc5 from their text, the rest anew."),
]
FuzzTime = Annotated[
    Text, typer.Option("--fuzz", metavar="TIME", help="Make wrong rules of the rules for so long; none must be proved.")
]
LevelsFile = Annotated[str, typer.Option("--record", metavar="FILE", help="Write the levels there too.")]
ModelledDevice = Annotated[Text, typer.Option("--device", help="Of --conformance: cpu or cuda.")]
UnitName = Annotated[str, typer.Argument(metavar="NAME", help="As `fxmorph passes` lists it.")]
UnitStage = Annotated[
    str, typer.Option("--stage", metavar="NAME", help="Those of one stage.", autocompletion=lambda: list(Stage))
]
UnitSort = Annotated[
    str,
    typer.Option(
        "--kind", metavar="NAME", help="pass, entry, decomposition or lowering.", autocompletion=lambda: list(UnitKind)
    ),
]
OwnPass = Annotated[str, typer.Argument(metavar="PASS", help="module:NAME, file.py:NAME, or the name of a plug-in.")]
GraphPaths = Annotated[
    Texts, typer.Argument(metavar="PATHS", help="Seeds, as for run [the corpus that comes with fxmorph].")
]
GraphStage = Annotated[
    str,
    typer.Option(
        "--stage",
        metavar="NAME",
        help="Graphs it is given: pre_grad, joint, post_grad, post_grad_after, freezing, export, edge or any [any].",
    ),
]
PassMake = Annotated[
    str,
    typer.Option("--make", metavar="EXPR", help="What makes it: module:factory, or Python over its module's names."),
]
PassArguments = Annotated[
    Texts, typer.Option("--arg", metavar="NAME=VALUE", help="Of its constructor or call. Repeatable.")
]
PassSetup = Annotated[str, typer.Option("--setup", metavar="EXPR", help="What runs before it is made.")]
PassContext = Annotated[str, typer.Option("--context", metavar="EXPR", help="A context manager around its calls.")]
Preludes = Annotated[Texts, typer.Option("--prelude", metavar="PASS", help="A pass that runs before it. Repeatable.")]
Assumptions = Annotated[
    Texts, typer.Option("--assume", metavar="EXPR", help="A predicate over graphs it may be given. Repeatable.")
]
StubOps = Annotated[
    Texts,
    typer.Option("--stub-ops", metavar="NS[=FILE]", help="Stand-ins for missing operators of a namespace. Repeatable."),
]
PassTolerance = Annotated[
    float, typer.Option("--rtol", metavar="X", help="A difference that is meant, relative to the largest value.")
]
DynamicSizes = Annotated[bool, typer.Option("--dynamic", help="Sizes of seeds are symbols.")]
AllGraphs = Annotated[bool, typer.Option("--all", help="Go on after the first finding.")]

# -- of propose --
Bugs = Annotated[
    Texts, typer.Argument(metavar="[BUG...]", help="Of --task from-bug: files or folders with an issue's text.")
]
Tasks = Annotated[Texts, typer.Option("--task", metavar="NAME", help="rules, recipes, seeds or from-bug. Repeatable.")]
Target = Annotated[str, typer.Option("--target", metavar="GLOB", help="A unit, units or a bug class.")]
Packs = Annotated[
    Texts, typer.Option("--packs", metavar="PATH", help="Packs or folders of them [those that come with fxmorph].")
]
OutcomesFile = Annotated[str, typer.Option("--record", metavar="FILE", help="Write outcomes of packs there too.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Decide again about what was decided before.")]
Model = Annotated[Text, typer.Option("--model", metavar="NAME", help="Ask this model [OPENAI_MODEL].")]
BaseUrl = Annotated[
    Text, typer.Option("--base-url", metavar="URL", help="Its server [OPENAI_BASE_URL, else OpenAI's].")
]
Limit = Annotated[
    Text,
    typer.Option(
        "--budget",
        metavar="LIMIT",
        help="30m; of a model also 5USD, 200calls; with --synthesise CPU time [15m; 20calls; 10m].",
    ),
]
Price = Annotated[
    Text, typer.Option("--price", metavar="IN/OUT", help="USD for a million tokens of prompt and of answer.")
]
AtOnce = Annotated[int, typer.Option("--at-once", metavar="N", min=1, help="Requests at a time.")]
Timeout = Annotated[Text, typer.Option("--timeout", metavar="TIME", help="For a part of an answer [60s].")]
PromptFolder = Annotated[
    Text, typer.Option("--prompts", metavar="DIR", help="Prompts of your own: rule.md, seed.md, ...")
]
Traffic = Annotated[Text, typer.Option("--traffic", metavar="FILE", help="Write prompts and answers there too.")]
Answers = Annotated[
    Text, typer.Option("--replay", metavar="FILE", help="Take the answers from there and ask no server.")
]
ResumeSession = Annotated[bool, typer.Option("--resume", help="Go on with the last session.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the prompts and ask nobody.")]
Synthesise = Annotated[
    bool, typer.Option("--synthesise", help="Find rules by enumeration; --budget is CPU time [10m].")
]
Operators = Annotated[str, typer.Option("--ops", metavar="NAMES", help="Operators to synthesise with [30].")]
PackFile = Annotated[str, typer.Option("--out", metavar="FILE", help="The pack to write the found rules to.")]


@app.callback()
def _top(version: Version = False) -> None:
    pass


@app.command("fuzz", cls=SettingsCommand, help="Run without end: until --max-time or Ctrl-C; --resume goes on later.")
@app.command("run", cls=SettingsCommand)
@_exits
def run(
    command: typer.Context,
    paths: Paths = None,
    seed: Seed = None,
    jobs: Jobs = None,
    max_time: MaxTime = None,
    max_cases: MaxCases = None,
    shard: ShardOf = None,
    engine: Engine = None,
    case_timeout: CaseTimeout = None,
    device: Device = None,
    backend: Backend = None,
    rung: Rung = None,
    compile: Compile = None,
    inductor: Inductor = None,
    dynamo: Dynamo = None,
    dtype: Dtype = None,
    context: Context = None,
    threads: Threads = None,
    transforms: Transforms = None,
    oracles: Oracles = None,
    cases: Cases = None,
    level: GraphLevel = None,
    no_rewrites: NoRewrites = None,
    only: Only = None,
    passes: Passes = None,
    all: AllSeeds = None,
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
) -> int:
    """Rewrite seeds into variants, compile both, report what is miscompiled."""
    settings = _settings(
        locals(), "command", "no_rewrites", rewrites=False if no_rewrites else None,
        unset={"max_time": float("inf")} if command.info_name == "fuzz" else None,
    )  # fmt: skip
    from fxmorph.commands.fuzz import fuzz

    return fuzz(settings)


@app.command(cls=SettingsCommand)
@_exits
def check(
    paths: Paths = None,
    seed: Seed = None,
    jobs: Jobs = None,
    max_time: MaxTime = None,
    engine: Engine = None,
    case_timeout: CaseTimeout = None,
    device: Device = None,
    backend: Backend = None,
    rung: Rung = None,
    compile: Compile = None,
    inductor: Inductor = None,
    dynamo: Dynamo = None,
    dtype: Dtype = None,
    context: Context = None,
    threads: Threads = None,
    oracles: Oracles = None,
    quick: Quick = None,
    all: AllSeeds = None,
    baseline: Baseline = None,
    fail_on: FailOn = None,
    edge_cases: EdgeCases = None,
    state: State = None,
    report: Reports = None,
    json: Json = None,
    quiet: Quiet = None,
    verbose: Verbose = 0,
) -> int:
    """Judge seeds as they are, one line each."""
    settings = _settings(locals(), rewrites=False, resume=False)
    from fxmorph.commands.check_seeds import check

    return check(settings)


@app.command(cls=Command)
@_exits
def localize(
    paths: OneModel,
    mode: ModeOfModel = "eval",
    jobs: Jobs = None,
    max_time: MaxTime = None,
    device: Device = None,
    compile: Compile = None,
    inductor: Inductor = None,
    dtype: Dtype = None,
    quick: Quick = None,
    state: State = None,
    json: Json = None,
) -> int:
    """Say which part of a model is the first that is compiled wrong, and what makes it so; exit code 1 where one is."""
    settings = _settings(locals(), "mode")
    from fxmorph.commands.localize_model import MODES, localize

    if mode not in MODES:
        raise ConfigError(f"--mode {mode}: want one of {', '.join(MODES)}")
    return localize(settings, mode)


@app.command(cls=Command)
@_exits
def replay(
    ids: FindingIds = None, every: AllFindings = False, jobs: Jobs = None, state: State = None, verbose: Verbose = 0
) -> int:
    """Run stored findings again: FIXED, FAILS or ERROR."""
    settings = _settings(locals(), "ids", "every")
    from fxmorph.commands.replay_findings import replay

    return replay(settings, ids or (), every)


@app.command(cls=Command)
@_exits
def reduce(
    ids: FindingIds = None,
    every: AllLeft = False,
    python: Pythons = None,
    max_time: MaxTime = None,
    jobs: Jobs = None,
    state: State = None,
    json: Json = None,
    quiet: Quiet = None,
    verbose: Verbose = 0,
) -> int:
    """Blame and reduce what a run had no time for; reduce stored findings further."""
    settings = _settings(locals(), "ids", "every", "python")
    from fxmorph.commands.reduce_findings import reduce

    return reduce(settings, ids or (), every, python or ())


@app.command(cls=Command)
@_exits
def bisect(id: FindingId, python: Releases = None, every: AllReleases = False, state: State = None) -> int:
    """Run a finding's repro under other releases of torch: the first that shows it, or the first that does not."""
    settings = _settings(locals(), "id", "python", "every")
    from fxmorph.commands.bisect_releases import bisect

    return bisect(settings, id, python or (), every)


@app.command(cls=Command, context_settings={"allow_interspersed_args": False})
@_exits
def capture(command: Program, out: SeedFolder = "captured", window: Window = 40) -> int:
    """Record the graphs that a program compiles, as seeds."""
    from fxmorph.programs.harvest import capture_program

    return capture_program(list(command), Path(out), window)


@app.command("init", cls=Command)
@_exits
def init_folder(folder: Scaffold = ".") -> int:
    """Write a seed, a rule, an oracle, a pass, tests of them and a CI workflow to start from."""
    from fxmorph.commands.columns import print_line
    from fxmorph.commands.init import init

    return init(Path(folder), print_line)


app.add_typer(corpus_app, name="corpus")


@corpus_app.callback(invoke_without_command=True)
def corpus(command: typer.Context) -> None:
    """Print the path of the corpus that is installed with fxmorph; with a command, keep a corpus small."""
    if command.invoked_subcommand is None:
        _print_shipped_corpus()


@_exits
def _print_shipped_corpus() -> int:
    from fxmorph.commands.columns import print_line
    from fxmorph.core.seeds import shipped_corpus

    print_line(shipped_corpus())
    return Exit.OK


@corpus_app.command("stats", cls=Command)
@_exits
def corpus_stats(paths: CorpusPaths = None, all: AllRegressions = None, jobs: Jobs = None, json: Json = None) -> int:
    """Say what a corpus covers: APIs of torch, ATen overloads, lowerings, decompositions, pattern entries, passes."""
    from fxmorph.core.seeds import shipped_corpus

    settings = _settings({"all": all, "jobs": jobs, "json": json}, paths=paths or [shipped_corpus()])
    from fxmorph.commands.corpus_stats import stats

    return stats(settings)


@corpus_app.command("add", cls=Command)
@_exits
def corpus_add(seeds: CorpusSeeds, to: CorpusTarget, keep_all: KeepAll = False, jobs: Jobs = None) -> int:
    """Take seeds that reach something which the corpus does not; say of each what it adds."""
    settings = _settings({"jobs": jobs}, paths=seeds)
    from fxmorph.commands.corpus_add import add

    return add(settings, Path(to), keep_all)


@corpus_app.command("dedupe", cls=Command)
@_exits
def corpus_dedupe(
    paths: CorpusSeeds, all: AllRegressions = None, remove: RemoveSpare = False, jobs: Jobs = None
) -> int:
    """List seeds that are the same graph, on inputs that are alike, under the same settings."""
    settings = _settings(locals(), "remove")
    from fxmorph.commands.corpus_dedupe import dedupe

    return dedupe(settings, remove)


@corpus_app.command("minimise", cls=Command)
@_exits
def corpus_minimise(paths: CorpusSeeds, into: CorpusFolder, all: AllRegressions = None, jobs: Jobs = None) -> int:
    """Copy the smallest set of seeds with the same coverage; say what each of them adds."""
    settings = _settings(locals(), "into")
    from fxmorph.commands.corpus_minimise import minimise

    return minimise(settings, Path(into))


app.add_typer(seeds_app, name="seeds")


@seeds_app.command("generate", cls=Command)
@_exits
def generate_seeds(
    seed: Seed = None, count: ProgramCount = 1, first: FirstProgram = 0, out: ProgramFolder = "",
    long: LongPrograms = False,
) -> int:  # fmt: skip
    """Draw random programs that are valid by construction; the same --seed gives the same ones everywhere."""
    settings = _settings({}, seed=seed)
    from fxmorph.commands.generate_seeds import generate

    return generate(settings.seed, first, count, Path(out) if out else None, long)


@seeds_app.command("models", cls=Command)
@_exits
def model_seeds(names: Architectures = None, out: ModelFolder = "") -> int:
    """Write small builds of public architectures, random weights, of the libraries that are installed; or list them."""
    from fxmorph.commands.model_seeds import list_models, write_models

    return write_models(names or (), Path(out)) if out else list_models(names or ())


@seeds_app.command("ops", cls=Command)
@_exits
def list_operators(json: Json = None) -> int:
    """List the operators of torch's own tests, which `fxmorph check op:NAME` and campaigns over a corpus try."""
    from fxmorph.commands.operator_list import list_operators

    return list_operators(bool(json))


@app.command(cls=Command)
@_exits
def doctor(device: Device = None, backend: Backend = None, transforms: Transforms = None, state: State = None) -> int:
    """Say what this machine and this torch offer, and show that a planted fault is seen."""
    settings = _settings(locals())
    from fxmorph.commands.columns import print_line
    from fxmorph.commands.doctor import run_doctor

    return run_doctor(settings, print_line)


app.add_typer(rules_app, name="rules")


@rules_app.callback(invoke_without_command=True)
def rules(command: typer.Context, transforms: Transforms = None, json: Json = None) -> None:
    """List the rules, with the level that was shown of each."""
    if command.invoked_subcommand is None:
        _list_rules(transforms, json)


@_exits
def _list_rules(transforms: list[str] | None, json: bool | None) -> int:
    settings = _settings(locals())
    from fxmorph.commands.rule_list import list_rules

    return list_rules(settings)


@rules_app.command("show", cls=Command)
@_exits
def show_rule(name: RuleName, transforms: Transforms = None, state: State = None, json: Json = None) -> int:
    """Say what a rule does and why, its two sides, what it takes and keeps, and what was shown of it."""
    settings = _settings(locals(), "name")
    from fxmorph.commands.rule_list import show_rule

    return show_rule(settings, name)


@app.command(cls=Command)
@_exits
def prove(
    names: RuleNames = None,
    every: AllRules = False,
    conformance: Conformance = False,
    solver: Solver = "",
    recheck: Recheck = False,
    record: LevelsFile = "",
    fuzz: FuzzTime = None,
    seed: Seed = None,
    max_cases: MaxCases = None,
    device: ModelledDevice = None,
    transforms: Transforms = None,
    jobs: Jobs = None,
    state: State = None,
    json: Json = None,
    quiet: Quiet = None,
) -> int:
    """Prove rules, or show inputs on which they are wrong; exit code 4 where one is refuted, 1 where less is shown."""
    settings = _settings(locals(), "names", "every", "conformance", "solver", "recheck", "record", "fuzz")
    from fxmorph.commands.prove import prove

    return prove(settings, names or (), every, conformance, solver, recheck, Path(record) if record else None, fuzz)


@app.command(cls=Command)
@_exits
def propose(
    command: typer.Context,
    bugs: Bugs = None,
    task: Tasks = None,
    target: Target = "",
    packs: Packs = None,
    record: OutcomesFile = "",
    fresh: Fresh = False,
    model: Model = None,
    base_url: BaseUrl = None,
    budget: Limit = None,
    price: Price = None,
    at_once: AtOnce = 4,
    timeout: Timeout = None,
    prompts: PromptFolder = None,
    traffic: Traffic = None,
    replay: Answers = None,
    resume: ResumeSession = False,
    dry_run: DryRun = False,
    synthesise: Synthesise = False,
    ops: Operators = "",
    out: PackFile = "",
    seed: Seed = None,
    transforms: Transforms = None,
    jobs: Jobs = None,
    state: State = None,
    json: Json = None,
    quiet: Quiet = None,
    verbose: Verbose = 0,
) -> int:
    """Put proposals of packs, or of a language model, through the gate; say what became of each.

    A model is asked where one is named; its server is OPENAI_BASE_URL, the key OPENAI_API_KEY.
    """
    from fxmorph.propose.model.options import Asked, time_of

    if synthesise:
        _refuse_beside_synthesise(command)
        found = _settings({}, seed=seed, max_time=time_of(budget or "10m"), json=json, quiet=quiet)
        from fxmorph.commands.synthesise import synthesise as find_rules

        return find_rules(found, ops, Path(out) if out else None)
    asked = Asked(
        model, base_url, budget, price, timeout, at_once, prompts, traffic, replay, resume, dry_run, tuple(bugs or ())
    )
    given = {
        "transforms": transforms, "jobs": jobs, "state": state, "json": json, "quiet": quiet, "verbose": verbose,
    }  # fmt: skip
    from fxmorph.commands.propose import propose

    return propose(given, asked, task or (), target, packs or (), record, fresh, misplaced=bool(ops or out))


def _refuse_beside_synthesise(command: typer.Context) -> None:
    """Refuse options that only packs and models take; raises ``ConfigError``."""
    takes = {"synthesise", "ops", "out", "budget", "seed", "json", "quiet"}
    for parameter in command.command.params:
        source = command.get_parameter_source(parameter.name or "")
        if parameter.name not in takes and source is not None and source.name == "COMMANDLINE":
            word = parameter.opts[0] if parameter.opts[0].startswith("-") else "a bug"
            raise ConfigError(f"--synthesise asks no model and reads no packs: {word} does not go with it")


@app.command("check-pass", cls=Command)
@_exits
def check_pass(
    name: OwnPass,
    paths: GraphPaths = None,
    stage: GraphStage = "",
    make: PassMake = "",
    arg: PassArguments = None,
    setup: PassSetup = "",
    surrounding: PassContext = "",
    prelude: Preludes = None,
    assume: Assumptions = None,
    stub_ops: StubOps = None,
    rtol: PassTolerance = 0.0,
    dynamic: DynamicSizes = False,
    device: Device = None,
    compile: Compile = None,
    inductor: Inductor = None,
    every: AllGraphs = False,
    max_time: MaxTime = None,
    state: State = None,
    json: Json = None,
    quiet: Quiet = None,
    verbose: Verbose = 0,
) -> int:
    """Check an FX pass of your own: right, wrong with an example, proved."""
    own = (
        "name", "stage", "make", "arg", "setup", "surrounding", "prelude", "assume", "stub_ops", "rtol", "dynamic",
        "every",
    )  # fmt: skip
    settings = _settings(locals(), "own", *own)
    from fxmorph.commands.check_pass import check_pass
    from fxmorph.inductor.own.pass_request import PassRequest, arguments

    request = PassRequest(
        name, make=make, args=arguments(arg or ()), setup=setup, context=surrounding, stage=stage,
        prelude=tuple(prelude or ()), assume=tuple(assume or ()), stub_ops=tuple(stub_ops or ()), dynamic=dynamic,
        rtol=rtol,
    )  # fmt: skip
    return check_pass(settings, request, every)


app.add_typer(passes_app, name="passes")


@passes_app.callback(invoke_without_command=True)
def passes(
    command: typer.Context, stage: UnitStage = "", kind: UnitSort = "", state: State = None, json: Json = None
) -> None:
    """List the passes, pattern entries, decompositions and lowerings of the installed torch."""
    if command.invoked_subcommand is None:
        _list_units(stage, kind, state, bool(json))


@_exits
def _list_units(stage: str, kind: str, state: str | None, json: bool) -> int:
    require_word("--stage", stage, Stage)
    require_word("--kind", kind, UnitKind)
    from fxmorph.commands.passes import list_units

    return list_units(_settings({}, state=state), stage, kind, json)


@passes_app.command("show", cls=Command)
@_exits
def show_pass(name: UnitName) -> int:
    """Say where a unit is written, what it matches, and how to do without it."""
    from fxmorph.commands.passes import show_unit

    return show_unit(name)


@app.command(cls=Command)
@_exits
def coverage(state: State = None, json: Json = None) -> int:
    """Say which units of Inductor fired in the last run; of one with --pass, why the others did not too."""
    settings = _settings(locals())
    from fxmorph.commands.fired_units import coverage

    return coverage(settings)


@app.command(cls=Command)
@_exits
def explain(
    case: Case,
    backend: Backend = None,
    rung: Rung = None,
    compile: Compile = None,
    inductor: Inductor = None,
    dynamo: Dynamo = None,
    dtype: Dtype = None,
    context: Context = None,
    threads: Threads = None,
    quick: Quick = None,
    device: Device = None,
    transforms: Transforms = None,
    oracles: Oracles = None,
    state: State = None,
) -> int:
    """Judge one case again and say every step of the judgement."""
    settings = _settings(locals(), "case", rewrites=False)
    from fxmorph.commands.columns import print_line
    from fxmorph.commands.explain import explain

    return explain(settings, case, print_line)


@app.command("cases", cls=Command)
@_exits
def list_cases(
    verdict: CaseVerdict = "", seed: CaseSeed = "", rule: CaseRule = "", unit: CaseUnit = "", state: State = None,
    json: Json = None,
) -> int:  # fmt: skip
    """List the cases of the last run, with the numbers that `fxmorph explain` takes."""
    require_word("--verdict", verdict, Status)
    settings = _settings(locals(), "verdict", "seed", "rule", "unit")
    from fxmorph.commands.cases import Wanted, list_cases

    return list_cases(settings, Wanted(verdict, seed, rule, unit))


@app.command(cls=Command)
@_exits
def findings(duplicates: Duplicates = False, state: State = None, json: Json = None) -> int:
    """List the findings that are stored."""
    settings = _settings(locals(), "duplicates")
    from fxmorph.commands.findings import list_findings

    return list_findings(settings, duplicates)


@app.command(cls=Command)
@_exits
def show(id: FindingId, state: State = None) -> int:
    """Print the report of a finding."""
    settings = _settings(locals(), "id")
    from fxmorph.commands.findings import show_finding

    return show_finding(settings, id)


@app.command(cls=Command)
@_exits
def compare(before: RunBefore, after: RunAfter, state: State = None, json: Json = None) -> int:
    """Say what changed from one run to another, as under another torch; exit code 1 where something is new."""
    settings = _settings(locals(), "before", "after")
    from fxmorph.commands.compare import compare

    return compare(settings, before, after)


@app.command(cls=Command)
@_exits
def merge(states: MergedStates, into: MergeTarget) -> int:
    """Join the runs of several state folders, as of shards, in one: each run, case and cause once."""
    from fxmorph.commands.merge import merge

    return merge(states, into)


@app.command(cls=Command)
@_exits
def nightly(
    paths: Paths = None,
    python: TorchPython = "",
    shards: ShardCount = 1,
    no_run: NoRun = False,
    bisect: OtherReleases = None,
    site: SiteFolder = "",
    issues: IssueList = "",
    seed: Seed = None,
    jobs: Jobs = None,
    max_time: MaxTime = None,
    max_cases: MaxCases = None,
    only: Only = None,
    device: Device = None,
    backend: Backend = None,
    fail_on: FailOn = None,
    state: State = None,
    json: Json = None,
    quiet: Quiet = None,
) -> int:
    """Run a campaign under the torch of the day, run earlier findings again, write the site of all nights."""
    run = {
        "seed": seed, "jobs": jobs, "max_time": max_time, "max_cases": max_cases, "only": only, "device": device,
        "backend": backend, "json": json, "quiet": quiet,
    }  # fmt: skip
    settings = _settings({**run, "paths": paths, "fail_on": fail_on, "state": state})
    from fxmorph.commands.nightly import NightOptions, nightly

    if no_run and paths:
        raise ConfigError("--no-run: shards were run elsewhere: give no paths")
    options = NightOptions(python, 0 if no_run else shards, tuple(bisect or ()), site, issues)
    return nightly(settings, options, run)


@app.command("report", cls=Command)
@_exits
def write_report(states: States = None, out: Page = "", report: Reports = None, state: State = None) -> int:
    """Write report.html for the runs of one or more state folders."""
    settings = _settings(locals(), "states", "out")
    from fxmorph.commands.report_page import write_report

    return write_report(settings, states or (), out)
