"""One undisturbed run for all tests of the whole system, and runs that are cleared away after each."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from fakes.whole import Run, Town, entries_of

from argosy.core.records import Entry
from argosy.run.folder import RunFolder

UNDISTURBED_TOKENS = 240_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Undisturbed:
    """What a run left that nobody disturbed."""

    code: int
    said: str
    place: Path
    folder: RunFolder
    entries: list[Entry]
    working: dict[int, str]  # processes seen at work in its second round
    left: dict[int, str]  # those that were still there when its command had ended
    seconds: float


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    """`argosy train job.yaml --lab --yes`, measured and planned as a user's would be."""
    place = tmp_path_factory.mktemp("undisturbed")
    began = time.monotonic()
    run = Run.train(place, Town(tokens=UNDISTURBED_TOKENS))
    try:
        run.wait_for_round(2)
        working = run.alive()
        code = run.end()
        left = run.alive()
    finally:
        run.clear()
    return Undisturbed(
        code=code,
        said=run.said,
        place=place,
        folder=run.folder,
        entries=entries_of(run.folder),
        working=working,
        left=left,
        seconds=time.monotonic() - began,
    )


@pytest.fixture
def keep() -> Iterator[Callable[[Run], Run]]:
    """`run = keep(Run.train(...))`: whatever becomes of it, nothing of it stays."""
    kept: list[Run] = []

    def one(run: Run) -> Run:
        kept.append(run)
        return run

    yield one
    for run in kept:
        run.clear()
