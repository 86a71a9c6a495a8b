import io
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from fakes import history
from fakes.run import Tape, commit, contribution, plan, progress, run_begun, started
from fakes.stage import JOB, order
from rich.console import Console

from argosy.cli.audience import Lines, Live
from argosy.core.errors import SpecError
from argosy.core.records import (
    Commit,
    Evaluation,
    HostEvent,
    Planned,
)


def evaluation(number: int, source: str, bits: float) -> Evaluation:
    return Evaluation(round=number, source=source, loss=2.0, tokens=9, bits_per_byte=bits)


def told() -> Tape:
    tape = Tape()
    tape.begin()
    tape.start("frankfurt", "frankfurt-1")
    tape.add("frankfurt", "frankfurt-1", evaluation(0, "german", 8.05))
    tape.add("frankfurt", "frankfurt-1", contribution(1))
    tape.add("virginia", "virginia-1", contribution(1))
    tape.control(commit(1, ("frankfurt", 1), ("virginia", 1), tokens=2000))
    tape.add("frankfurt", "frankfurt-1", evaluation(1, "german", 2.9))
    tape.control(HostEvent(what="lost", site="virginia", host="virginia-1", detail="it is gone"))
    tape.incarnations["frankfurt-1"] = 2
    tape.start("frankfurt", "frankfurt-1")
    tape.add("frankfurt", "frankfurt-1", progress())
    post = replace(contribution(2, base=1), incarnation=2)
    tape.add("frankfurt", "frankfurt-1", post)
    tape.control(commit(2, ("frankfurt", 2), last=True, tokens=3000))
    return tape


def test_without_a_terminal_each_thing_worth_knowing_is_one_line() -> None:
    out = io.StringIO()

    Lines(yes=True, out=out).heard(tuple(told().entries))

    assert out.getvalue().splitlines() == [
        "frankfurt-1 started",
        "round 1: frankfurt, virginia; 2 k tokens; bits per byte after round 0: german 8.050",
        "lost: it is gone",
        "frankfurt-1 is back",
        "round 2, the last: frankfurt; 3 k tokens; bits per byte after round 1: german 2.900",
    ]


def test_what_was_found_after_the_last_round_is_said_at_the_end() -> None:
    out = io.StringIO()
    lines = Lines(yes=True, out=out)
    tape = Tape()
    tape.add("frankfurt", "frankfurt-1", evaluation(2, "german", 2.5))
    tape.add("virginia", "virginia-1", evaluation(1, "english", 2.75))

    lines.heard(tuple(tape.entries))
    lines.close()
    lines.close()

    assert out.getvalue() == (
        "bits per byte after round 1: english 2.750; after round 2: german 2.500\n"
    )


def test_what_was_before_is_one_line_and_nothing_for_a_new_run() -> None:
    out = io.StringIO()
    lines = Lines(yes=True, out=out)

    lines.recalled(())
    lines.recalled(tuple(told().entries))
    lines.close()

    assert out.getvalue() == "goes on after round 2\n"


def test_the_plan_is_shown_with_its_reasons(tmp_path: Path) -> None:
    out = io.StringIO()
    asked = order(tmp_path)

    agreed = Lines(yes=True, out=out).planned(asked.job, asked.fleet, plan())

    assert agreed
    assert "- because" in out.getvalue()
    assert "virginia (US)  trains virginia-text on virginia-1 (1x4), virginia-2 (1x4)" in (
        out.getvalue()
    )


@pytest.mark.parametrize(("answer", "agreed"), [("y", True), ("Yes", True), ("", False)])
def test_a_person_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, agreed: bool
) -> None:
    class Keyboard(io.StringIO):
        def isatty(self) -> bool:
            return True

    asked = order(tmp_path)
    monkeypatch.setattr(sys, "stdin", Keyboard(answer + "\n"))

    assert Lines(yes=False).planned(asked.job, asked.fleet, plan()) is agreed


def test_where_nobody_can_answer_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = order(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))

    with pytest.raises(SpecError, match="nobody is here"):
        Lines(yes=False).planned(asked.job, asked.fleet, plan())


def test_on_a_terminal_one_block_is_refreshed_and_words_scroll_above_it(tmp_path: Path) -> None:
    screen = io.StringIO()
    asked = order(tmp_path)
    live = Live(yes=True, console=Console(file=screen, force_terminal=True, width=100))

    live.say("Measuring [3] hosts")
    assert live.planned(asked.job, asked.fleet, plan())
    entries = told().entries
    entries[0] = replace(entries[0], body=replace(run_begun(), job=JOB))
    live.recalled(tuple(entries[:3]))
    live.heard(tuple(entries[3:]))
    live.close()

    text = screen.getvalue()
    assert "Measuring [3] hosts" in text
    assert "round 2" in text
    assert "4 k tokens" in text
    assert "frankfurt (DE)" in text


def test_the_block_is_not_shown_before_there_is_a_plan() -> None:
    screen = io.StringIO()
    live = Live(yes=True, console=Console(file=screen, force_terminal=True, width=100))
    tape = Tape()
    tape.control(HostEvent(what="fault", site="", host="", detail="early"))

    live.heard(tuple(tape.entries))
    live.close()

    assert "tokens" not in screen.getvalue()


def test_the_summary_says_what_a_lost_site_cost_the_others() -> None:
    from argosy.cli.show import summary_lines
    from argosy.observe.story import tell

    text = "\n".join(summary_lines(tell(history.entries())))

    assert "loss in bits per byte" in text
    assert "the other sites waited" in text


def test_records_that_nobody_needs_to_see_have_no_line() -> None:
    from argosy.cli.show import entry_line

    tape = Tape()
    tape.begin()

    lines = {entry.kind: entry_line(entry) for entry in tape.entries}

    assert set(lines.values()) == {None}
    assert isinstance(tape.entries[3].body, Planned)
    assert not [entry for entry in tape.entries if isinstance(entry.body, Commit)]
    assert started().torch
