"""Real workers in real processes: hosts that are killed, frozen, asked to leave, and come back.

Slow because Python and torch start anew for every host; what it buys is gloo as it really fails.
"""

import signal
from pathlib import Path

import pytest
from fakes.engine_lab import LabTown

from argosy.core.records import Contribution, HostStarted

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

LONG_S = 300.0  # on a machine that is busy with other things
STEPS: dict[str, object] = {"window_steps": 10, "codec": "int8"}


def rounds_more(town: LabTown, more: int) -> None:
    goal = town.round + more
    town.until(lambda: town.round >= goal, LONG_S)


def test_a_site_of_three_hosts_goes_on_without_a_follower_without_its_leader_and_with_both_back(
    tmp_path: Path,
) -> None:
    hosts = ("virginia-1", "virginia-2", "virginia-3")
    with LabTown(tmp_path, {"frankfurt": 1, "virginia": 3}, exchange=STEPS) as town:
        town.crew("virginia", 1, *hosts)
        town.worker("frankfurt", "frankfurt-1")
        for host in hosts:
            town.worker("virginia", host)
        town.until(lambda: len(town.said(Contribution, "virginia")) >= 2, LONG_S)

        town.processes["virginia-3"].kill()
        town.until(
            lambda: "virginia-1, virginia-2 train together" in town.events("regroup"), LONG_S
        )
        rounds_more(town, 2)
        town.worker("virginia", "virginia-3")
        town.until(lambda: len(town.events("regroup")) == 3, LONG_S)
        assert town.events("regroup")[-1] == "virginia-1, virginia-2, virginia-3 train together"

        town.processes["virginia-1"].kill()
        town.until(lambda: town.events("lost") != [], LONG_S)
        town.crew("virginia", 2, "virginia-2", "virginia-3")
        posts = len(town.said(Contribution, "virginia"))
        town.until(lambda: len(town.said(Contribution, "virginia")) >= posts + 2, LONG_S)
        town.worker("virginia", "virginia-1")
        town.crew("virginia", 3, "virginia-2", "virginia-3", "virginia-1")
        town.until(
            lambda: (
                town.events("regroup")[-1] == "virginia-2, virginia-3, virginia-1 train together"
            ),
            LONG_S,
        )
        rounds_more(town, 2)
        town.drain()
        town.until(lambda: town.ended("frankfurt-1", *hosts), LONG_S)

        assert [town.exit_code(host) for host in ("frankfurt-1", *hosts)] == [0, 0, 0, 0]
        assert all(len(told) == 1 for told in town.digests().values())
        assert len(town.digests()) == town.round
        assert not town.events("rollback")
        started = [e.writer.host for e in town.said(HostStarted, "virginia")]
        assert started.count("virginia-2") == 1, "survivors go on in the same process"
        for books in town.controller.agreement.ledger().values():
            assert books.trained == books.committed + sum(books.lost.values())


def test_a_frozen_host_is_left_out_and_joins_again_when_it_wakes(tmp_path: Path) -> None:
    with LabTown(tmp_path, {"virginia": 2}, exchange=STEPS) as town:
        town.crew("virginia", 1, "virginia-1", "virginia-2")
        for host in ("virginia-1", "virginia-2"):
            town.worker("virginia", host)
        town.until(lambda: town.round >= 2, LONG_S)

        town.processes["virginia-2"].send_signal(signal.SIGSTOP)
        town.until(lambda: "virginia-1 train together" in town.events("regroup"), LONG_S)
        rounds_more(town, 2)
        town.processes["virginia-2"].send_signal(signal.SIGCONT)
        town.until(
            lambda: town.events("regroup")[-1] == "virginia-1, virginia-2 train together", LONG_S
        )
        rounds_more(town, 2)
        town.drain()
        town.until(lambda: town.ended("virginia-1", "virginia-2"), LONG_S)

        assert [town.exit_code(host) for host in ("virginia-1", "virginia-2")] == [0, 0]
        assert town.controller.agreement.ledger()["virginia"].lost == {}


def test_a_host_with_notice_leaves_its_work_behind_and_takes_it_up_again(tmp_path: Path) -> None:
    with LabTown(tmp_path, {"frankfurt": 1}, exchange=STEPS) as town:
        town.worker("frankfurt", "frankfurt-1")
        town.until(lambda: town.round >= 2, LONG_S)

        town.processes["frankfurt-1"].send_signal(signal.SIGTERM)
        town.until(lambda: town.ended("frankfurt-1"), LONG_S)
        assert town.exit_code("frankfurt-1") == 0
        before = town.controller.agreement.ledger()["frankfurt"].trained
        town.worker("frankfurt", "frankfurt-1")
        rounds_more(town, 2)
        town.drain()
        town.until(lambda: town.ended("frankfurt-1"), LONG_S)

        again = town.said(HostStarted)[-1]
        assert isinstance(again.body, HostStarted)
        assert again.writer.incarnation == 2
        assert again.body.resumed_tokens >= before
        assert town.controller.agreement.ledger()["frankfurt"].lost == {}
        assert town.exit_code("frankfurt-1") == 0


def test_the_same_worker_runs_under_plain_torchrun(tmp_path: Path) -> None:
    with LabTown(tmp_path, {"virginia": 2}, exchange=STEPS) as town:
        town.torchrun("virginia")
        town.until(lambda: town.round >= 3, LONG_S)
        town.drain()
        town.until(lambda: town.ended("torchrun"), LONG_S)

        assert town.exit_code("torchrun") == 0
        assert all(len(told) == 1 for told in town.digests().values())
        assert {e.writer.host for e in town.said(HostStarted)} == {"virginia-1", "virginia-2"}
