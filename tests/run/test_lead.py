import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fakes.stage import JOB, SITE_OF, Part, Quiet, Stage, begun, means

from argosy.cluster.provider import Exit
from argosy.core.errors import HostError, NoPlan, SpecError, UserError
from argosy.core.fleet import Fleet
from argosy.core.job import Job
from argosy.core.plan import Plan
from argosy.core.records import Commit, Crew, Ended, Lead
from argosy.run import lock
from argosy.run.audit import audit
from argosy.run.lead import end_what_lives, lead
from argosy.run.resume import read_state, resume
from argosy.run.state import RunState
from argosy.run.together import together


@pytest.fixture(autouse=True)
def ctrl_c() -> Iterator[None]:
    """A shell that starts tests in the background has them ignore Ctrl-C; these want to hear it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


LONGER = JOB.replace("4000", "30_000")  # rounds enough for a host to come back


def led(
    tmp_path: Path,
    stage: Stage,
    quiet: Quiet,
    *,
    job: str = JOB,
    clock: Callable[[], float] = time.monotonic,
) -> RunState:
    async def whole() -> RunState:
        folder, setup = await begun(tmp_path, job=job)
        return await lead(folder, setup, means(stage, quiet, clock=clock))

    with contextlib.closing(stage):
        return asyncio.run(whole())


def test_a_run_goes_from_its_plan_to_its_model_and_its_proof_is_ok(tmp_path: Path) -> None:
    stage, quiet = Stage(), Quiet()

    state = led(tmp_path, stage, quiet)

    assert state.ended is not None
    assert (state.ended.outcome, state.ended.tokens) == ("done", state.tokens)
    assert state.tokens >= 4000
    assert len(quiet.plans) == 1
    assert quiet.kinds()[:3] == ["run", "roster", "lead"]
    assert quiet.kinds()[-1] == "end"
    assert stage.folder is not None
    proof = audit(stage.folder)
    assert proof.ok, str(proof)
    assert proof.counts.replayed == state.round


def test_helpers_come_first_and_go_last(tmp_path: Path) -> None:
    stage, quiet = Stage(), Quiet()

    led(tmp_path, stage, quiet)

    assert stage.done[:2] == ["prepare", "start logbook"]
    assert stage.done[2] == "start checkpointer"
    assert {"start frankfurt-1", "start virginia-1", "start virginia-2"} <= set(stage.done)
    assert "start export" in stage.done
    assert stage.done[-2:] == ["stop checkpointer", "release"]


def test_a_killed_host_is_started_again_and_the_run_goes_on(tmp_path: Path) -> None:
    stage = Stage({"frankfurt-1": Part(dies_at_round=1)})
    quiet = Quiet()

    state = led(tmp_path, stage, quiet, job=LONGER)

    assert state.ended is not None
    assert stage.done.count("start frankfurt-1") == 2
    assert ("lost", "frankfurt-1") in quiet.events()
    assert state.sites["frankfurt"].hosts["frankfurt-1"].incarnation == 2
    assert audit(stage.folder).ok if stage.folder else False


def test_a_site_that_loses_its_leader_gets_another(tmp_path: Path) -> None:
    stage = Stage({"virginia-1": Part(dies_at_round=1)})
    quiet = Quiet()

    state = led(tmp_path, stage, quiet, job=LONGER)

    crews = [e.body for e in quiet.entries if isinstance(e.body, Crew) and e.body.epoch > 1]
    assert crews == [Crew(site="virginia", epoch=2, hosts=("virginia-2", "virginia-1"))]
    assert state.ended is not None


def test_a_host_that_cannot_be_reached_is_asked_again(tmp_path: Path) -> None:
    stage, quiet = Stage(), Quiet()
    stage.unreachable = {"virginia-2"}

    state = led(tmp_path, stage, quiet)

    assert state.ended is not None
    assert "virginia-2 cannot be reached" in quiet.said


def test_a_clock_that_is_an_hour_off_is_told_and_the_run_goes_on(tmp_path: Path) -> None:
    stage, quiet = Stage({"frankfurt-1": Part(clock_ms=3_600_000)}), Quiet()

    state = led(tmp_path, stage, quiet)

    assert ("clock", "frankfurt-1") in quiet.events()
    assert state.ended is not None


def test_a_host_with_a_mistake_in_its_data_ends_the_run_with_that_mistake(tmp_path: Path) -> None:
    stage, quiet = Stage({"virginia-2": Part(fails=[2])}), Quiet()

    with pytest.raises(SpecError, match="virginia-2 cannot do its part"):
        led(tmp_path, stage, quiet)

    assert stage.done[-1] == "release"


def test_a_plan_that_is_not_agreed_to_starts_nothing(tmp_path: Path) -> None:
    stage, quiet = Stage(), Quiet(agrees=False)

    with pytest.raises(NoPlan, match="not agreed"):
        led(tmp_path, stage, quiet)

    assert "start frankfurt-1" not in stage.done


def test_a_second_controller_is_refused(tmp_path: Path) -> None:
    async def whole() -> None:
        folder, setup = await begun(tmp_path)
        with lock.held(folder.lock):
            await lead(folder, setup, means(Stage(), Quiet()))

    with pytest.raises(HostError, match="another controller"):
        asyncio.run(whole())


class Impatient(Quiet):
    """Sends this process a signal after the first round."""

    def __init__(self, number: signal.Signals) -> None:
        super().__init__()
        self.number = number
        self.sent = False

    def heard(self, entries: tuple) -> None:  # type: ignore[type-arg]
        super().heard(entries)
        if not self.sent and any(isinstance(entry.body, Commit) for entry in entries):
            self.sent = True
            os.kill(os.getpid(), self.number)


def test_sigterm_is_one_more_round_and_a_whole_end(tmp_path: Path) -> None:
    stage, quiet = Stage(), Impatient(signal.SIGTERM)

    state = led(tmp_path, stage, quiet, job=JOB.replace("4000", "400000"))

    assert state.ended is not None
    assert state.ended.outcome == "stopped"
    assert state.round < 10


def test_ctrl_c_ends_the_children_and_the_run_can_be_resumed(tmp_path: Path) -> None:
    stage, quiet = Stage(), Impatient(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        led(tmp_path, stage, quiet)
    assert stage.done[-1] == "release"
    assert stage.folder is not None
    before = read_state(stage.folder)

    again = Quiet()
    with contextlib.closing(stage):
        state = asyncio.run(resume(stage.folder, means(stage, again)))

    assert before.ended is None
    assert state.ended is not None
    assert [e.body.term for e in again.entries if isinstance(e.body, Lead)] == [1, 2]
    assert again.plans == []
    proof = audit(stage.folder)
    assert proof.ok, str(proof)


def test_a_run_that_has_ended_cannot_be_resumed(tmp_path: Path) -> None:
    stage = Stage()
    led(tmp_path, stage, Quiet())
    assert stage.folder is not None

    with pytest.raises(SpecError, match="has ended"):
        asyncio.run(resume(stage.folder, means(stage, Quiet())))


def test_what_a_killed_controller_left_at_work_is_ended(tmp_path: Path) -> None:
    stage = Stage()

    async def whole() -> None:
        folder, _ = await begun(tmp_path)
        await end_what_lives(folder, means(stage, Quiet()))

    with contextlib.closing(stage):
        asyncio.run(whole())

    assert stage.done == ["release"]


def test_the_last_record_says_how_it_ended(tmp_path: Path) -> None:
    quiet = Quiet()

    state = led(tmp_path, Stage(), quiet)

    (ended,) = [entry for entry in quiet.entries if isinstance(entry.body, Ended)]
    assert isinstance(ended.body, Ended)
    assert ended.body.rounds == state.round
    assert ended.body.head_seq == ended.seq - 1


def test_a_server_that_dies_is_started_again(tmp_path: Path) -> None:
    stage, quiet = Stage(), Quiet()
    stage.cues[1] = lambda: stage.ends("logbook", 1)

    state = led(tmp_path, stage, quiet, job=LONGER)

    assert state.ended is not None
    assert stage.done.count("start logbook") == 2


class JumpingClock:
    """Steady, but for the jumps that a test makes."""

    def __init__(self) -> None:
        self.jumped_s = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.jumped_s


def test_a_host_that_is_silent_for_too_long_is_told_and_started_anew(tmp_path: Path) -> None:
    stage, quiet = Stage({"frankfurt-1": Part(falls_silent_at_round=1)}), Quiet()
    clock = JumpingClock()

    def an_hour_later() -> None:
        clock.jumped_s += 3600.0

    stage.cues[1] = an_hour_later

    state = led(tmp_path, stage, quiet, job=LONGER, clock=clock)

    assert ("hung", "frankfurt-1") in quiet.events()
    assert stage.done.count("start frankfurt-1") == 2
    assert stage.done.index("stop frankfurt-1") < stage.done.index("start export")
    assert state.ended is not None


def test_a_model_that_cannot_be_written_is_said_and_the_run_is_whole(tmp_path: Path) -> None:
    stage, quiet = Stage(), Quiet()
    stage.export_code = 5

    state = led(tmp_path, stage, quiet)

    assert state.ended is not None
    assert any(line.startswith("no model:") for line in quiet.said)
    assert any("Its checkpoint is safe" in line for line in quiet.said)


def test_a_logbook_that_takes_nothing_for_a_while_is_said_and_waited_for(tmp_path: Path) -> None:
    stage, quiet = Stage(), Quiet()
    stage.cues[1] = lambda: stage.fill_the_disk(appends=5)

    state = led(tmp_path, stage, quiet, job=LONGER)

    assert any("takes no records now" in line for line in quiet.said)
    assert state.ended is not None


def test_while_the_logbook_cannot_be_read_the_controller_asks_on(tmp_path: Path) -> None:
    stage, quiet = Stage(), Quiet()
    stage.cues[1] = lambda: stage.cut_the_line(reads=3)

    state = led(tmp_path, stage, quiet, job=LONGER)

    assert state.ended is not None


def test_a_controller_in_whose_name_somebody_newer_wrote_gives_up(tmp_path: Path) -> None:
    stage, quiet = Stage(), Quiet()
    stage.cues[1] = lambda: stage.somebody_takes_the_lead(term=7)

    with pytest.raises(UserError, match=r"newer life|another controller"):
        led(tmp_path, stage, quiet, job=LONGER)


class Surviving(Stage):
    """Its hosts cannot be ended, as if the controller had been killed before it could."""

    async def stop(self, host: str, *, within_s: float) -> Exit | None:  # noqa: ARG002
        return None

    async def release(self, *, within_s: float) -> tuple[Exit, ...]:  # noqa: ARG002
        return ()


def test_sites_that_went_on_without_a_controller_are_adopted(tmp_path: Path) -> None:
    stage, killed = Surviving(), Impatient(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        led(tmp_path, stage, killed, job=LONGER)
    assert stage.folder is not None
    again = Quiet()

    with contextlib.closing(stage):
        state = asyncio.run(resume(stage.folder, means(stage, again)))

    assert state.ended is not None
    assert stage.done.count("start frankfurt-1") == 1
    assert stage.done.count("start logbook") == 1
    assert ("lost", "frankfurt-1") not in again.events()
    assert audit(stage.folder).ok


def test_sigterm_before_training_begins_ends_it_at_once(tmp_path: Path) -> None:
    class Asked(Quiet):
        def planned(self, job: Job, fleet: Fleet, plan: Plan) -> bool:
            os.kill(os.getpid(), signal.SIGTERM)
            return super().planned(job, fleet, plan)

    stage = Stage()

    with pytest.raises(HostError, match="stopped before training began"):
        led(tmp_path, stage, Asked())

    assert "start frankfurt-1" not in stage.done
    assert stage.done[-1] == "release"


def test_a_stopped_run_whose_sites_are_all_gone_ends_with_what_is_agreed(tmp_path: Path) -> None:
    stage, quiet = Stage(), Quiet()

    def everybody_falls() -> None:
        for host in SITE_OF:
            stage.parts[host] = Part(fails=[1] * 9)
            stage.ends(host, 1)
        os.kill(os.getpid(), signal.SIGTERM)

    stage.cues[2] = everybody_falls

    state = led(tmp_path, stage, quiet, job=LONGER)

    assert state.ended is not None
    assert state.ended.outcome == "stopped"
    assert state.last is None
    assert state.kept
    assert stage.folder is not None
    proof = audit(stage.folder)
    assert proof.ok, str(proof)


def test_of_several_failures_the_first_is_told_as_itself() -> None:
    async def fails(what: str) -> None:
        raise HostError(what)

    async def whole() -> None:
        await together(together(fails("one")), fails("two"))

    with pytest.raises(HostError, match=r"one|two"):
        asyncio.run(whole())
