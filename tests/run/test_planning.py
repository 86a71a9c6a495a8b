import asyncio
import contextlib
import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
from fakes.stage import FLEET, Quiet, Stage, means, order

from argosy.cluster.provider import Process
from argosy.core.errors import HostError, NoPlan, SpecError
from argosy.core.plan import Plan
from argosy.core.records import Crew, Planned, Roster
from argosy.run.lead import lead
from argosy.run.preview import plan_only
from argosy.run.setup import Setup
from argosy.run.state import RunState


class Measured(Stage):
    """A stage whose hosts can be measured: each says what it was told to say."""

    def __init__(self, said: Mapping[str, str] | None = None, **torch: str) -> None:
        super().__init__()
        self.said = dict(said or {})
        self.torch = torch

    async def start(
        self, host: str, argv: list[str], *, log: Path, env: Mapping[str, str], within_s: float
    ) -> Process:
        if "argosy.engine.calibrate" not in argv:
            return await super().start(host, argv, log=log, env=env, within_s=within_s)
        self.done.append(f"measure {host}")
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("warming up\n[1, 2]\n" + self.said.get(host, self._told(host)) + "\n")
        process = self._running[host] = Process(host=host, pid=1, started="now", log=log)
        self.ends(host, 0)
        return process

    def _told(self, host: str) -> str:
        torch = self.torch.get(host.replace("-", "_"), "2.13.0")
        quick = host == "virginia-2"
        facts = {
            "host": host, "tokens_per_s": 1000.0, "micro_batch": 4, "peak_memory_gb": 0.1,
            "memory_gb": 8.0, "cores": 1, "gpus": 0, "torch": torch,
        }  # fmt: skip
        link = {"rtt_ms": 91.0, "up_mbit": 80.0 if quick else 40.0, "down_mbit": 70.0}
        told = {"event": "calibrated", "facts": facts, "parameters": 8, "link": link}
        return json.dumps(told | ({"link": None} if host == "frankfurt-1" else {}))


def previewed(tmp_path: Path, stage: Stage, *, declared: bool, fleet: str = FLEET) -> Plan:
    wanted = Setup(lab=False, declared=declared, port=1)
    with contextlib.closing(stage):
        return asyncio.run(plan_only(order(tmp_path, fleet=fleet), wanted, means(stage, Quiet())))


def test_a_preview_plans_and_leaves_nothing_behind(tmp_path: Path) -> None:
    stage = Measured()

    plan = previewed(tmp_path, stage, declared=False)

    assert plan.number == 1
    assert [site.site for site in plan.sites] == ["frankfurt", "virginia"]
    assert plan.parameters == 8
    assert {"measure frankfurt-1", "measure virginia-1", "measure virginia-2"} <= set(stage.done)
    assert stage.done[-1] == "release"
    assert not (tmp_path / "runs").exists()
    assert stage.folder is not None
    assert not stage.folder.path.exists()


def test_with_declared_speeds_nothing_is_measured(tmp_path: Path) -> None:
    stage = Measured()

    plan = previewed(tmp_path, stage, declared=True)

    assert plan.site("frankfurt").tokens_per_s == pytest.approx(1000.0, rel=0.01)
    assert not [step for step in stage.done if step.startswith("measure")]


def test_a_speed_that_is_not_declared_is_asked_for(tmp_path: Path) -> None:
    fleet = FLEET.replace(", tokens_per_s: 1000}}", "}}")

    with pytest.raises(SpecError, match="speed of frankfurt-1 is not declared") as refused:
        previewed(tmp_path, Measured(), declared=True, fleet=fleet)

    assert refused.value.where == f"{tmp_path / 'fleet.yaml'}:8"


def test_what_a_process_says_of_the_job_is_told_with_the_users_own_name_of_it(
    tmp_path: Path,
) -> None:
    class Failing(Measured):
        def ends(self, host: str, code: int) -> None:
            super().ends(host, code or 2)

    wrong = {"event": "error", "kind": "SpecError", "what": "model.config: no", "hint": "mend it"}
    stage = Failing()
    hosts = ("frankfurt-1", "virginia-1", "virginia-2")
    stage.said = {host: json.dumps(wrong | {"where": "job.yaml:3"}) for host in hosts}

    with pytest.raises(SpecError) as refused:
        previewed(tmp_path, stage, declared=False)

    assert refused.value.where == f"{tmp_path / 'job.yaml'}:3"


def test_a_preview_that_failed_leaves_the_logs_that_it_names_and_no_keys(tmp_path: Path) -> None:
    stage = Measured({host: "crashed" for host in ("frankfurt-1", "virginia-1", "virginia-2")})

    with pytest.raises(HostError, match="the measurement failed") as refused:
        previewed(tmp_path, stage, declared=False)

    log = Path(str(refused.value.hint).rpartition("Its log: ")[2])
    assert log.read_text() == "warming up\n[1, 2]\ncrashed\n"
    scratch = next(parent for parent in log.parents if parent.name.startswith("argosy-plan-"))
    assert list(scratch.rglob("*.key")) == []
    shutil.rmtree(scratch)


def led(tmp_path: Path, stage: Stage) -> tuple[RunState, Quiet]:
    async def whole() -> RunState:
        from argosy.run.begin import make_run

        folder, setup = await make_run(order(tmp_path), tmp_path / "runs", Setup(lab=False, port=1))
        return await lead(folder, setup, means(stage, quiet))

    quiet = Quiet()
    with contextlib.closing(stage):
        return asyncio.run(whole()), quiet


def test_a_plan_is_written_with_its_crews_and_the_one_torch_of_the_run(tmp_path: Path) -> None:
    state, quiet = led(tmp_path, Measured())

    bodies = [entry.body for entry in quiet.entries]
    (planned,) = [body for body in bodies if isinstance(body, Planned)]
    rosters = [body for body in bodies if isinstance(body, Roster)]
    crews = [body for body in bodies if isinstance(body, Crew)]
    assert planned.plan == quiet.plans[0]
    assert [roster.torch for roster in rosters] == ["", "2.13.0"]
    assert [(crew.site, crew.hosts) for crew in crews] == [
        ("frankfurt", ("frankfurt-1",)),
        ("virginia", ("virginia-1", "virginia-2")),
    ]
    assert state.ended is not None


def test_two_versions_of_torch_are_refused_with_both_named(tmp_path: Path) -> None:
    with pytest.raises(HostError) as refused:
        led(tmp_path, Measured(virginia_2="2.7.1"))

    assert "torch 2.13.0 on" in refused.value.what
    assert "torch 2.7.1 on virginia-2" in refused.value.what


def test_a_host_that_cannot_be_measured_says_why(tmp_path: Path) -> None:
    error = {
        "event": "error",
        "kind": "SpecError",
        "what": "german.txt is empty",
        "where": "german",
    }

    with pytest.raises(SpecError, match="is empty"):
        led(tmp_path, Measured({"frankfurt-1": json.dumps(error)}))


def test_a_host_that_says_nothing_of_use_shows_its_last_words(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="Killed by a cosmic ray") as refused:
        led(tmp_path, Measured({"frankfurt-1": "Killed by a cosmic ray"}))

    assert "calibrate.txt" in str(refused.value.hint)


def test_a_model_that_fits_nowhere_is_said_before_training(tmp_path: Path) -> None:
    facts = {
        "host": "frankfurt-1", "tokens_per_s": 0.0, "micro_batch": 1, "peak_memory_gb": 99.0,
        "memory_gb": 8.0, "cores": 1, "gpus": 0, "torch": "2.13.0",
    }  # fmt: skip
    told = {"event": "calibrated", "facts": facts, "parameters": 8, "link": None}
    stage = Measured({"frankfurt-1": json.dumps(told)})

    with pytest.raises(NoPlan, match="frankfurt"):
        led(tmp_path, stage)

    assert "start frankfurt-1" not in stage.done
