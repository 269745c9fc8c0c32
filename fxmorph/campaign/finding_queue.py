"""What becomes of a case that differs: seen, investigated, confirmed, stored, written up.

It is a finding from the moment that it is seen: stored as it was found (``STATE/seen/ID``), counted and told
whatever time is left.  What is made of it later takes its place.
"""

from __future__ import annotations

import shutil
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fxmorph.campaign import jobs
from fxmorph.campaign.identification import BASELINE, Identification
from fxmorph.campaign.ledger import Emit, Ledger
from fxmorph.campaign.seen_findings import SeenFindings
from fxmorph.core.config import Settings
from fxmorph.core.finding_parts import Blame, Draw, Match, Reduced, Repro
from fxmorph.core.lifetime import STILL_THERE
from fxmorph.core.pool import Ended
from fxmorph.core.seen_differences import seen_before
from fxmorph.core.versions import version_of
from fxmorph.events import FindingMade, Warned
from fxmorph.model import Case, CaseResult, Finding, Recipe, digest
from fxmorph.triage.blame.culprit import bug_class
from fxmorph.triage.conclusion import Investigated
from fxmorph.triage.identity import checked_fingerprint, fingerprint, of_its_cause, one_cause
from fxmorph.triage.known.likeness import likely_issues

#: CPU seconds for blaming and reducing one finding of a run.
LEAST_SECONDS, MOST_SECONDS = 12.0, 60.0
#: So many times that where compiles are for a GPU, and wait for it.
ON_GPU = 2.5
#: How much of what is left for investigations those get that wait; the others are still to be found.
FOR_WAITING = 0.5
#: How much of the rest of a run that has no case left they get, and how many times as much as else one at most;
#: confirmation and report take the other part.
OF_REST, LONGEST = 0.25, 5.0
#: How much of the wall time that is left an investigation may be given, so that it ends and is confirmed before the
#: run does; with less than ``TOO_LATE`` seconds a case becomes a finding as it was found, blamed where that can be done
#: in ``BLAMED_IN`` seconds or more and ``CONFIRMED_IN`` are left then.
OF_LEFT, TOO_LATE, BLAMED_IN, CONFIRMED_IN = 0.4, 36.0, 6.0, 14.0
#: CPU seconds for a repro in fresh processes.
CONFIRM_SECONDS = 300.0
#: CPU seconds for the snippets of a report.
WRITE_UP_SECONDS = 300.0
#: Writes a finding's folder.
Write = Callable[[Path, Finding], None]


@dataclass(frozen=True)
class Effort:
    """How much is made of what is found.

    ``seconds`` of CPU at most are for blaming and reducing one finding, ``least`` at least; ``times`` fresh processes
    must show it.
    ``share`` of what was spent so far may go to investigations while cases are left (None: no limit).  What the time
    of a run does not reach waits for ``fxmorph reduce``.
    """

    seconds: float = MOST_SECONDS
    times: int = 1
    share: float | None = 0.25
    least: float = LEAST_SECONDS

    @classmethod
    def on(cls, device: str) -> Effort:
        """That of a run on the device."""
        return cls() if device == "cpu" else cls(ON_GPU * MOST_SECONDS, least=ON_GPU * LEAST_SECONDS)

    def for_one(self, budget: float, spent: float, waiting: int, rest: float = 0.0) -> float:
        """CPU seconds for one of the findings that wait, of a run that has ``budget`` in all and has ``spent`` some.

        Where many wait each gets less, so that several are reached.  ``rest``: what is left where no case is.
        """
        if self.share is None:
            return self.seconds
        usual = min(FOR_WAITING * (self.share * budget - spent) / waiting, self.seconds)
        return max(usual, min(OF_REST * rest / waiting, LONGEST * self.seconds), self.least)


@dataclass(frozen=True)
class Found:
    """A case that stands after the ladder, waiting to be investigated."""

    index: int
    case: Case
    result: CaseResult
    manner: jobs.Manner = jobs.Manner.HERE
    blame: Blame | None = None

    def novelty(self) -> tuple[Any, ...]:
        return (self.result.kinds, self.result.stage, self.case.seed.hash if not self.result.recipe else "")


class FindingQueue:
    """The findings of one run; of a run that goes on it begins with what is stored.

    ``baseline`` are fingerprints that do not count, ``workers`` is how many the run has.  ``again`` are
    findings that are reduced further, by case; they keep their ids.
    """

    def __init__(
        self, settings: Settings, ledger: Ledger, emit: Emit, baseline: frozenset[str], workers: int,
        effort: Effort | None = None, again: Mapping[str, Finding] | None = None,
    ) -> None:  # fmt: skip
        self._settings, self._ledger, self._emit, self._workers = settings, ledger, emit, workers
        self._identity = Identification(baseline)
        self._effort, self._again = effort or Effort.on(settings.device), again or {}
        #: CPU seconds that the run has.
        self._budget = settings.max_time * workers
        stored = [finding for finding, _, _ in ledger.placed()]
        confirmed = [f for f in stored if f.confirmed]
        #: Cases that differ and that no finding is confirmed of (yet).
        self.seen = SeenFindings(settings.state_dir, ledger, (f for f in stored if not f.confirmed))
        #: What is confirmed, by fingerprint.
        self.findings = {f.fingerprint: f for f in confirmed if f.id == f.fingerprint}
        self._concluded = {f.case_id for f in confirmed}
        #: How many cases have the cause of another, and how many seeds that ``check`` judged a baseline lists.
        self.duplicates = self._listed = 0
        #: How many findings were given their place by a confirmation, or given it back; how many got their report.
        self.placed = self.written = 0
        #: Fingerprints of what ``check`` found and no baseline lists.
        self._differing: list[str] = []
        self._waiting: deque[Found] = deque()
        #: CPU seconds that investigations took.
        self._spent = 0.0
        #: How many like it were investigated.
        self._investigated: Counter[Any] = Counter()
        #: The rewrites that each finding so far was reduced to.
        self._needed: set[frozenset[str]] = set()
        self._to_confirm: deque[jobs.Confirm | jobs.Identify] = deque()
        #: Fingerprints being confirmed, with the other findings that have them.
        self._confirming: dict[str, list[Finding]] = {}
        #: What is confirmed, and has no report that can be sent yet.
        self._to_write_up: deque[jobs.WriteUp] = deque()
        #: Fingerprints by group of what was reduced.
        self._groups: dict[str, str] = {}
        #: Findings of units, by id, that are told once it is shown whether they are known, and what writes them.
        self._identifying: dict[str, tuple[Finding, Write]] = {}

    @property
    def known(self) -> int:
        """How many findings are known."""
        return self._listed + sum(bool(f.known) for f in self.findings.values())

    @property
    def new(self) -> tuple[str, ...]:
        """Ids of findings that are not known, those only seen too; of ``check``, which makes none, fingerprints."""
        found = (*self.findings.values(), *self.seen)
        return (*self._differing, *(f.id for f in found if not f.known))

    # -- of a run that goes on -----------------------------------------------------

    def tell_stored(self) -> None:
        """Tell what an earlier part of the run confirmed, as it is known or listed now."""
        for finding, folder, duplicate_of in self._ledger.placed():
            if not finding.confirmed:
                continue
            now = self._identity.again(finding)
            if now != finding:
                self._ledger.add_finding(now, Path(folder) if folder else None, duplicate_of)
                if finding.fingerprint in self.findings and not duplicate_of:
                    self.findings[finding.fingerprint] = now
            self.duplicates += bool(duplicate_of)
            self._emit(FindingMade(now, folder, now.known, duplicate_of))

    def recall(self, index: int, case: Case, result: CaseResult) -> None:
        """A case that differs was judged by an earlier part, which may have made of it all, some or nothing."""
        self.see(index, case, result, None)
        for finding in self.findings.values():
            if finding.case_id == case.id and finding.program and finding.draft is None:
                self.write_up(index, case, finding)

    # -- seen ----------------------------------------------------------------------

    def see(self, index: int, case: Case, result: CaseResult, found: Investigated | None) -> None:
        """A case differs; ``found`` is its program as it was found, where a text holds it."""
        if case.id in self._concluded:
            return
        if case.id not in self.seen:
            self.seen.add(finding_of(case, result, found or Investigated.of_result(result), self._settings.seed))
        self.add(Found(index, case, result))

    def add(self, found: Found) -> None:
        """A case that is stored as seen waits to be investigated."""
        self._waiting.append(found)

    def check(self, seed: str, result: CaseResult) -> tuple[str, str]:
        """Of a seed that differs the fingerprint, and what lists it ("": nothing); all that ``check`` makes of it."""
        print_ = checked_fingerprint(seed, result.kinds, result.stage, result.unit)
        if self._identity.listed(print_):
            self._listed += 1
            return print_, BASELINE
        self._differing.append(print_)
        return print_, ""

    # -- investigated ----------------------------------------------------------------

    def wants(self, cases_left: bool) -> bool:
        """Whether there is something to do, and time for it while ``cases_left`` or after."""
        return bool(self._to_confirm) or self._wants_investigation(cases_left) or self._wants_report(cases_left)

    def next_job(
        self, left: float, cases_left: bool
    ) -> tuple[jobs.Investigate | jobs.Confirm | jobs.Identify | jobs.WriteUp, float]:
        """What is to be done first, and its limit in CPU seconds; something must be to do.

        ``left`` are the wall seconds that the run has left, and ``cases_left`` is whether they are for other cases too.
        """
        if self._to_confirm:
            return self._to_confirm.popleft(), CONFIRM_SECONDS
        if self._to_write_up and (not self._waiting or not self._to_write_up[0].finding.known):
            return self._to_write_up.popleft(), WRITE_UP_SECONDS
        # The finding least like those already looked at goes first.
        best = min(self._waiting, key=lambda f: (self._looks_known(f), self._investigated[f.novelty()], f.index))
        rest = 0.0 if cases_left else left * self._workers
        seconds = self._effort.for_one(self._budget, self._spent, len(self._waiting), rest)
        self._waiting.remove(best)
        if self._effort.share is not None:
            seconds = min(seconds, max(OF_LEFT * left, self._effort.least))
            if left < TOO_LATE:
                best, seconds = _in_short(best, left - CONFIRMED_IN)
        self._investigated[best.novelty()] += 1
        groups = tuple(self._groups)
        job = jobs.Investigate(best.index, best.case, best.result, seconds, groups, best.manner, best.blame)
        return job, max(seconds, self._effort.least) * 4

    def hear(self, ended: Ended) -> None:
        """One of the queue's jobs ended."""
        if isinstance(ended.job, jobs.Investigate):
            self._conclude(ended.job, ended)
        elif isinstance(ended.job, jobs.Identify):
            self._identified(ended.job, ended)
        elif isinstance(ended.job, jobs.Confirm):
            self._confirmed(ended.job, ended)
        else:
            self._written_up(ended.job, ended)

    @property
    def has_new(self) -> bool:
        """Whether something waits to be investigated that does not look known."""
        return not all(map(self._looks_known, self._waiting))

    def _wants_investigation(self, cases_left: bool) -> bool:
        if not self._waiting or (cases_left and not self.has_new):
            return False  # the time of what looks known comes when no case is left
        return self._has_time(cases_left)

    def _wants_report(self, cases_left: bool) -> bool:
        """Reports take two processes each: they come when no case is left, and then have what time there is."""
        return bool(self._to_write_up) and not cases_left

    def _has_time(self, cases_left: bool) -> bool:
        share = self._effort.share
        if share is None or not cases_left:
            return True
        return self._spent <= share * max(sum(self._ledger.seconds.values()), 1.0)

    def _looks_known(self, found: Found) -> bool:
        """Whether this torch is known to show it, or the recipe holds all rewrites that a finding was reduced to."""
        if seen_before(found.case, found.result):
            return True
        rules = {r.rule for r in Recipe.parse(found.result.recipe).rewrites}
        return any(needed <= rules for needed in self._needed)

    def _conclude(self, job: jobs.Investigate, ended: Ended) -> None:
        got = ended.value
        if isinstance(got, Investigated):
            self._ledger.add_seconds(got.seconds)
            self._spent += sum(used for _, used in got.seconds)
        else:
            self._spent += ended.cpu
            manner = self._next_manner(job, ended)
            blame = ended.so_far if isinstance(ended.so_far, Blame) else job.blame
            if manner is not None:
                self.add(Found(job.index, job.case, job.result, manner, blame))
                return
            why = ended.detail or ended.trouble
            self._emit(Warned(f"case {job.index} ({job.case.seed.label}) could not be investigated: {why}"))
            got = None
        like = self._groups.get(got.group, "") if got is not None else ""
        if got is None or not (got.program or like):
            self.seen.stays(job.case.id, "nothing that stands alone was made of it")
            return
        finding = self._with_old_id(job.case.id, finding_of(job.case, job.result, got, self._settings.seed))
        if not got.program:
            finding = replace(finding, id=like, fingerprint=like)
        elif got.group:
            self._groups[got.group] = finding.fingerprint
        if got.rewrites:
            self._needed.add(frozenset(got.rewrites))
        self._settle(jobs.Confirm(job.index, job.case, finding, ""))

    def _next_manner(self, job: jobs.Investigate, ended: Ended) -> jobs.Manner | None:
        """How a case whose investigation came to nothing is investigated again; None where it is not."""
        if job.manner is jobs.Manner.AS_FOUND:
            return None
        # A GPU's context does not survive a fork.
        if ended.trouble == "crash" and job.manner is jobs.Manner.HERE and job.case.device == "cpu":
            return jobs.Manner.APART
        if job.case.id in self._again:
            return None  # a finding that is there already says more than its case does as found
        blamed = job.blame is not None or isinstance(ended.so_far, Blame)
        return jobs.Manner.AS_FOUND if blamed or job.manner is jobs.Manner.BLAMED else jobs.Manner.BLAMED

    def _with_old_id(self, case_id: str, finding: Finding) -> Finding:
        """One that is reduced further keeps its id, and its place is free until it is confirmed."""
        old = self._again.get(case_id)
        if old is None:
            return finding
        self.findings.pop(old.fingerprint, None)
        return replace(finding, id=old.id, fingerprint=old.fingerprint, known=old.known)

    # -- confirmed -------------------------------------------------------------------

    def _settle(self, job: jobs.Confirm) -> None:
        """A duplicate is stored as one; anything new is written and goes to be confirmed."""
        finding = job.finding
        blamed = (f for f in self.findings.values() if of_its_cause(f, finding))
        earlier = self.findings.get(finding.fingerprint) or next(blamed, None)
        if earlier is not None and finding.program and not one_cause(earlier, finding):
            key = digest([finding.fingerprint, finding.program], 12)
            finding, earlier = replace(finding, id=key, fingerprint=key), self.findings.get(key)
        if earlier is not None:
            apart = self._identity.apart(finding, earlier, self.seen.unreduced)
            if apart is None or apart.fingerprint in self.findings:
                self._duplicate(finding, earlier)
                return
            job, finding = replace(job, like=earlier.fingerprint), apart
        if finding.fingerprint in self._confirming:
            self._confirming[finding.fingerprint].append(finding)
            return
        if not finding.program:  # what it is like was not confirmed
            again = self.seen.unreduced(finding)
            if again is None:
                self.seen.stays(finding.case_id, "what it is like was not confirmed")
                return
            finding = again
        # What is in findings/ shows its difference: until then, and where it does not, it lies elsewhere.
        folder = self._settings.state_dir / "unconfirmed" / finding.id
        self._ledger.write_folder(folder, finding)
        self._confirming[finding.fingerprint] = []
        self._to_confirm.append(replace(job, finding=finding, folder=str(folder), times=self._effort.times))

    def _duplicate(self, finding: Finding, earlier: Finding) -> None:
        self.duplicates += 1
        finding = replace(finding, id=digest([finding.fingerprint, finding.case_id], 12))
        self.seen.give_way(finding, None, duplicate_of=earlier.id)
        self._emit(FindingMade(finding, "", "", earlier.id))

    def _confirmed(self, job: jobs.Confirm, ended: Ended) -> None:
        finding = job.finding
        shown, used = ended.value if ended.value is not None else (None, ())
        self._ledger.add_seconds(used)
        same = self._confirming.pop(finding.fingerprint, [])
        if shown is None or not shown.stands:
            other = self._otherwise(finding) if shown is not None else None
            if other is not None:
                self._confirm_again(replace(job, finding=other), same)
                return
            self._not_confirmed(job, f"{shown}: {shown.said}" if shown else ended.detail or ended.trouble)
        else:

            def write(folder: Path, finding: Finding) -> None:
                self._ledger.write_folder(folder, finding)
                shutil.rmtree(job.folder, ignore_errors=True)

            match, earlier = shown.match or Match(), self.findings.get(job.like)
            if earlier is not None and match.issue == earlier.known:
                shutil.rmtree(job.folder, ignore_errors=True)
                self._duplicate(finding, earlier)
            else:
                shows = ((version_of("torch"), STILL_THERE),)
                finding = replace(finding, evidence=(*finding.evidence, str(shown)), releases=shows)
                with self._ledger.activity("store"):
                    self.place(finding, write, match)
                self.placed += 1
                self.write_up(job.index, job.case, self.findings[finding.fingerprint])
        for other in same:  # where this one was not confirmed, their programs may be
            self._settle(replace(job, finding=other))

    def _otherwise(self, finding: Finding) -> Finding | None:
        """The finding with a script that has more of what it was found under; None where it has all of it.

        On one thread, since loops that run in parallel are other code; then with garbage in new memory, which a
        fresh process has little of.
        """
        config = finding.config
        if not config.get("threads"):
            return replace(finding, repro=finding.repro.with_config(threads=1))
        if not config.get("garbage") and config.get("device", "cpu") == "cpu":
            return replace(finding, repro=finding.repro.with_config(garbage=True))
        return None

    def _confirm_again(self, job: jobs.Confirm, same: list[Finding]) -> None:
        self._ledger.write_folder(Path(job.folder), job.finding)
        self._confirming[job.finding.fingerprint] = same
        self._to_confirm.append(job)

    def _not_confirmed(self, job: jobs.Confirm, said: str) -> None:
        finding = job.finding
        self._groups = {g: f for g, f in self._groups.items() if f != finding.fingerprint}
        self._emit(Warned(f"{job.folder}/repro.py does not show the difference in a fresh process: {said}"))
        old = self._again.get(job.case.id)
        if old is not None:  # as it was
            self.findings[old.fingerprint] = old
            self.placed += 1
        seen = self.seen.unreduced(finding)
        if seen is None:
            self.seen.stays(finding.case_id, "its repro.py does not show the difference in a fresh process")
        else:
            self._settle(replace(job, finding=seen))

    # -- written up ------------------------------------------------------------------

    def write_up(self, index: int, case: Case, finding: Finding) -> None:
        """The finding, which stands, waits for its report; what is not known comes first."""
        job = jobs.WriteUp(index, case, finding, str(self._folder(finding)))
        if finding.known:
            self._to_write_up.append(job)
        else:
            self._to_write_up.appendleft(job)

    def _written_up(self, job: jobs.WriteUp, ended: Ended) -> None:
        """Where nothing was made of it the report stays as it is."""
        draft, used = ended.value if ended.value is not None else (None, ())
        self._ledger.add_seconds(used)
        self._spent += sum(seconds for _, seconds in used)
        finding = self.findings.get(job.finding.fingerprint)
        if draft is not None and finding is not None:
            finding = replace(finding, draft=draft)
            self._ledger.write_folder(self._folder(finding), finding)
            self._ledger.add_finding(finding, self._folder(finding))
            self.findings[finding.fingerprint] = finding
            self.written += 1

    # -- stored ----------------------------------------------------------------------

    def place(self, finding: Finding, write: Write, match: Match | None = None) -> None:
        """A finding shows its difference: ``write`` its folder, store it and tell.

        ``match`` is the public issue that it was shown to be; None where its repro was not run in a fresh process yet,
        which is done before it is told.
        """
        finding = self._identity.named(finding, match or Match())
        folder = self._folder(finding)
        write(folder, finding)
        later = match is None and (folder / "repro.py").is_file()  # a graph that has no text has none
        self.seen.give_way(finding, folder)
        self.findings[finding.fingerprint] = finding
        if later:
            self._identifying[finding.id] = finding, write
            self._to_confirm.append(jobs.Identify(finding, str(folder)))
        else:
            self._emit(FindingMade(finding, str(folder), finding.known, ""))

    def _identified(self, job: jobs.Identify, ended: Ended) -> None:
        """The repro of a unit's finding was run: it is told, or has its place no more."""
        finding, write = self._identifying.pop(job.finding.id)
        shown, used = ended.value if ended.value is not None else (None, ())
        self._ledger.add_seconds(used)
        if shown is None or shown.stands:
            said = (str(shown),) if shown else ()
            match = shown.match if shown and shown.match else Match()
            self.place(replace(finding, evidence=(*finding.evidence, *said)), write, match)
            return
        del self.findings[finding.fingerprint]
        self._ledger.forget_finding(finding)
        folder = self._settings.state_dir / "unconfirmed" / finding.id
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(self._folder(finding), folder)
        self._ledger.counts["unconfirmed"] += 1
        said_by_it = f"{folder}/repro.py does not show the difference in a fresh process: {shown}: {shown.said}"
        self._emit(Warned(f"{finding.unit} alone differs; {said_by_it}"))

    def amend(self, finding: Finding) -> None:
        """Store more of a finding that has its place, if it still has it."""
        placed = self.findings.get(finding.fingerprint)
        if placed is None:
            return
        finding = replace(finding, known=placed.known, known_by=placed.known_by)
        self.findings[finding.fingerprint] = finding
        if finding.id in self._identifying:
            self._identifying[finding.id] = finding, self._identifying[finding.id][1]
        self._ledger.add_finding(finding, self._folder(finding))

    def _folder(self, finding: Finding) -> Path:
        return self._settings.state_dir / "findings" / finding.id

    # -- told at the end ---------------------------------------------------------------

    def end(self) -> None:
        """Time is over, uninterrupted: say how many cases were not investigated to the end."""
        left = len(self.seen) - self._ledger.counts["unconfirmed"]
        if left > 0:
            self._ledger.counts["uninvestigated"] = left
            why = "differing cases were not investigated to the end for lack of time; `fxmorph reduce` does"
            self._emit(Warned(f"{left} {why}"))

    def tell_seen(self) -> None:
        """Tell of what was seen and of which nothing is confirmed, or not whether it is known."""
        for id in tuple(self._identifying):
            self.place(*self._identifying.pop(id), Match())
        for seen in self.seen:
            self._emit(FindingMade(seen, str(self.seen.place(seen)), seen.known, ""))


def _in_short(found: Found, seconds: float) -> tuple[Found, float]:
    """How a case is investigated for which there are so many seconds, and no more."""
    blames = seconds >= BLAMED_IN and found.manner is jobs.Manner.HERE
    manner = jobs.Manner.BLAMED if blames else jobs.Manner.AS_FOUND
    return replace(found, manner=manner), max(seconds, 0.0)


def finding_of(case: Case, result: CaseResult, got: Investigated, campaign_seed: int) -> Finding:
    """What was found out of a case that differs, as a finding."""
    threads = got.config.get("threads", case.compile.threads)
    stage = got.stage(result.stage)
    print_ = fingerprint(got.kinds, stage, got.unit, got.signature, got.skeleton, got.structure)
    finding = Finding(
        id=print_,
        case_id=result.case_id,
        seed=case.seed.label,
        recipe=got.recipe,
        kinds=got.kinds,
        bug_class=bug_class(got.kinds, stage, got.unit),
        stage=stage,
        unit=got.unit,
        triangle=result.triangle or "seed-miscompiled",
        fingerprint=print_,
        reason=got.evidence[0] if got.evidence else result.reason,
        program=got.program,
        origin=case.seed.origin,
        ladder=result.ladder,
        evidence=(*got.evidence, *([f"found on {threads} threads"] if threads > 1 else [])),
        rewrites=got.rewrites,
        proofs=tuple(p for p in result.proofs if p.rewrite in map(str, Recipe.parse(got.recipe).rewrites)),
        repro=Repro(got.config, got.check, random=True),
        draw=Draw(campaign_seed, case.number, case.input_seed, result.recipe),
        reduced=Reduced(got.nodes, got.tests, got.operations, got.skeleton, got.signature, got.rung, got.finished),
        blame=got.blame,
        exhibit=got.exhibit,
        units=(got.unit, *got.blame.functions) if got.blame is not None and got.unit else (),
    )
    return replace(finding, likely=likely_issues(finding))
