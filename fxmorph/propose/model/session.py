"""A session with a language model: questions asked at once, answers through the gate, refuted ones asked again."""

from __future__ import annotations

import json
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field, replace
from enum import Enum

from fxmorph.propose.model.answers import answer_schema, read_answer
from fxmorph.propose.model.asker import FINAL, Asker, Message
from fxmorph.propose.model.meter import Spent
from fxmorph.propose.model.traffic import Answer, Reply, Trouble, TroubleKind, request_hash
from fxmorph.propose.proposal import Judged, Line, Malformed, Outcome, Task, read_text, schema

#: Times that a refuted proposal goes back with its counterexample.
TURNS = 2

#: Questions in a row that may be given up before the session ends.
MOST_GIVEN_UP = 3


#: Troubles of a server that answers, and says no.
_REFUSALS = {*FINAL, TroubleKind.REFUSED, TroubleKind.PROMPT}


@dataclass(frozen=True)
class Question:
    """One thing to ask.  ``turn`` counts how often its proposals came back; ``prompt`` names file and version."""

    task: Task
    target: str
    messages: tuple[Message, ...]
    prompt: str
    turn: int = 0


@dataclass(frozen=True)
class Tried:
    """A proposal of a model, as JSON text, with what the gate said; ``request`` is the hash of its exchange."""

    question: Question
    request: str
    text: str
    judged: Judged


@dataclass(frozen=True)
class GivenUp:
    """A question that got no answer."""

    question: Question
    trouble: Trouble


class End(Enum):
    """Why a session ended."""

    DONE = "every question is asked"
    SPENT = "the budget is used up"
    REFUSED = "the server refuses"
    UNREACHABLE = "the server does not answer"


@dataclass
class Session:
    """Asks ``asker``, has ``judge`` decide about the proposals of each answer, tells ``tell`` what came of each.

    ``at_once`` questions are out at a time; answers are taken in the order of the questions, so
    that equal answers give equal outcomes however fast each came.  ``judge`` leaves out proposals once
    the function that it is given says no: the budget of time holds for it too.  ``again`` makes the
    message that sends refuted proposals back, from their texts and reasons.  ``aimable`` says whether
    what a proposal aims at is there.  ``beat`` is called whenever a question goes out or comes back, with
    how many are out.
    """

    asker: Asker
    judge: Callable[[Sequence[Line], Callable[[], bool]], Iterable[Judged]]
    again: Callable[[Sequence[Tried]], str]
    tell: Callable[[Tried | GivenUp], None]
    at_once: int = 4
    aimable: Callable[[str], bool] = lambda aims: True
    beat: Callable[[int], None] = lambda out: None
    outcomes: Counter[tuple[Task, Outcome]] = field(default_factory=Counter)
    given_up: int = 0
    #: Proposals that were not reached in time.
    left: int = 0
    #: The line that says more about the end.
    why: str = ""

    def run(self, questions: Iterator[Question]) -> End:
        """Ask until there is nothing left to ask, the budget is used up, or the server refuses."""
        meter = self.asker.meter
        back: deque[Question] = deque()
        out: deque[tuple[Question, Future[Reply]]] = deque()
        end, in_a_row, trouble, lost = None, 0, "", End.UNREACHABLE
        while True:
            while end is None and len(out) < self.at_once:
                question = back.popleft() if back else next(questions, None)
                if question is None:
                    break
                try:
                    work = self._prepared(question)
                except Spent as spent:
                    end, self.why = End.SPENT, str(spent)
                    break
                out.append((question, _started(work)))
                self.beat(len(out))
            if not out:
                break
            question, future = out.popleft()
            if not wait([future], meter.seconds_left).done:
                # Nobody waits for it any more; what it cost is not known.
                end, self.why = end or End.SPENT, self.why or meter.over()
                meter.estimated = True
                self.given_up += 1
                continue
            reply = future.result()
            self.beat(len(out))
            if isinstance(reply, Answer):
                in_a_row = 0
                back.extend(self._taken(question, reply))
                continue
            self.given_up += 1
            in_a_row += 1
            trouble = f"{reply.kind}: {reply.message}"
            lost = End.REFUSED if reply.kind in _REFUSALS else End.UNREACHABLE
            self.tell(GivenUp(question, reply))
            if reply.kind in FINAL or in_a_row == MOST_GIVEN_UP:
                end, self.why = end or lost, self.why or trouble
        if self.left and end is None:
            end, self.why = End.SPENT, meter.over()
        if trouble and end is End.SPENT and not self.asker.counts["answered"]:
            end, self.why = lost, trouble
        return end or End.DONE

    def _prepared(self, question: Question) -> Callable[[], Reply]:
        form = answer_schema(schema(question.task))
        return self.asker.prepared(question.messages, f"{question.task}_proposals", form)

    def _taken(self, question: Question, answer: Answer) -> Iterator[Question]:
        """Judge the proposals of an answer; gives the question that sends the refuted ones back."""
        refuted = []
        request = request_hash({"model": self.asker.model, "messages": question.messages})
        lines = {line.source: line for line in self._lines(question, answer, request)}
        self.left += len(lines)
        for judged in self.judge([*lines.values()], lambda: self.asker.meter.in_time):
            line = lines[judged.source]
            self.left -= 1
            self.outcomes[judged.task, judged.outcome] += 1
            tried = Tried(question, request, line.text, judged)
            self.tell(tried)
            if judged.outcome is Outcome.REFUTED:
                refuted.append(tried)
        if refuted and question.turn < TURNS:
            said = json.dumps({"proposals": [json.loads(t.text) for t in refuted]}, ensure_ascii=False)
            more: tuple[Message, ...] = (
                {"role": "assistant", "content": said},
                {"role": "user", "content": self.again(refuted)},
            )
            yield Question(question.task, question.target, question.messages + more, question.prompt, question.turn + 1)

    def _lines(self, question: Question, answer: Answer, request: str) -> list[Line]:
        """The proposals of an answer, each with a source of its own; a line with an error where there are none."""
        try:
            texts = read_answer(answer)
        except Malformed as error:
            # The task stands in the line, so that the outcome counts where it belongs.
            text = json.dumps({"task": question.task, "answer": answer.text[:200]})
            return [Line(request, text, None, str(error))]
        lines = [read_text(text, f"{request}:{number}") for number, text in enumerate(texts, 1)]
        return [self._asked_for(line, question.task) for line in lines]

    def _asked_for(self, line: Line, task: Task) -> Line:
        """The line, malformed where it is not of the task, or aimed at nothing."""
        if line.proposal is None:
            return line
        if line.proposal.task is not task:
            return replace(line, proposal=None, error=f"task: {line.proposal.task}, where {task} was asked for")
        if not self.aimable(line.proposal.aims):
            said = f"aims: {line.proposal.aims} is no bug class and no unit of this torch"
            return replace(line, proposal=None, error=said)
        return line


def _started(work: Callable[[], Reply]) -> Future[Reply]:
    """Run on a thread of its own that an interrupted program does not wait for."""
    future: Future[Reply] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # the one who waits for the result gets it
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future
