"""Who watches a run from a terminal: line by line, or as one block that is refreshed."""

import sys
import time
from typing import TYPE_CHECKING, TextIO

from rich.console import Console
from rich.live import Live as Block

from argosy.cli import show, view
from argosy.core.errors import SpecError
from argosy.core.fleet import Fleet
from argosy.core.job import Job
from argosy.core.plan import Plan
from argosy.core.records import Commit, Entry, Evaluation, RunBegun
from argosy.observe.story import Story, tell
from argosy.spec import parse_job

if TYPE_CHECKING:
    from rich.console import RenderableType

REFRESHES_PER_S = 2.0


class Lines:
    """For pipes and files: one line for each round and event.

    The sites evaluate a round after its commit, each in its own time: what they have found by then
    stands at the end of the next round's line.
    """

    def __init__(self, *, yes: bool, out: TextIO | None = None) -> None:
        self._yes = yes
        self._out = out or sys.stdout
        self._seen: list[Evaluation] = []

    def say(self, line: str) -> None:
        print(line, file=self._out, flush=True)

    def planned(self, job: Job, fleet: Fleet, plan: Plan) -> bool:
        for line in show.plan_lines(job, fleet, plan):
            self.say(line)
        return self._yes or _ask()

    def recalled(self, entries: tuple[Entry, ...]) -> None:
        rounds = [entry.body.round for entry in entries if isinstance(entry.body, Commit)]
        if rounds:
            self.say(f"goes on after round {rounds[-1]}")

    def heard(self, entries: tuple[Entry, ...]) -> None:
        for entry in entries:
            if isinstance(entry.body, Evaluation):
                self._seen.append(entry.body)
            elif line := show.entry_line(entry):
                found = self._losses() if isinstance(entry.body, Commit) else ""
                self.say(f"{line}; {found}" if found else line)

    def close(self) -> None:
        if found := self._losses():
            self.say(found)
        self._out.flush()

    def _losses(self) -> str:
        seen, self._seen = self._seen, []
        return show.losses(seen)


class Live:
    """For terminals: the block of cli.view, refreshed in place; what is said scrolls above it."""

    def __init__(self, *, yes: bool, console: Console | None = None) -> None:
        self._yes = yes
        self._console = console or Console()
        self._entries: list[Entry] = []
        self._tokens = 0
        self._told = (0, Story())  # the story, and of how many records it is
        self._block = Block(
            console=self._console,
            get_renderable=self._render,
            refresh_per_second=REFRESHES_PER_S,
        )

    def say(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False)

    def planned(self, job: Job, fleet: Fleet, plan: Plan) -> bool:
        for line in show.plan_lines(job, fleet, plan):
            self.say(line)
        return self._yes or _ask()

    def recalled(self, entries: tuple[Entry, ...]) -> None:
        self.heard(entries)

    def heard(self, entries: tuple[Entry, ...]) -> None:
        self._entries += entries
        for entry in entries:
            if isinstance(entry.body, RunBegun):
                self._tokens = parse_job(entry.body.job).training.tokens
        if self._story().plan is not None:
            self._block.start()

    def close(self) -> None:
        self._block.stop()

    def _story(self) -> Story:
        count = len(self._entries)
        if self._told[0] != count:
            self._told = (count, tell(self._entries[:count]))
        return self._told[1]

    def _render(self) -> "RenderableType":
        now_ms = time.time_ns() // 1_000_000
        return view.live(self._story(), target_tokens=self._tokens, now_ms=now_ms)


def _ask() -> bool:
    if not sys.stdin.isatty():
        raise SpecError(
            "nobody is here to agree to the plan", where="train", hint="--yes agrees beforehand."
        )
    return input("Begin? [y/N] ").strip().lower() in ("y", "yes")
