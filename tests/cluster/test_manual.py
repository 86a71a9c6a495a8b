import asyncio
import json
import shlex
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from fakes.lab import fleet
from fakes.lab_history import History

from argosy.cluster.manual import ManualProvider
from argosy.core.errors import HostError, SpecError
from argosy.core.records import Entry

URL = "https://argosy.example.org:4433"


class Desk:
    """A run folder with keys and worker files for every host, and a provider on it."""

    def __init__(self, folder: Path, *faults: str) -> None:
        self.folder = folder
        self.said: list[str] = []
        for site in fleet().sites:
            for host in site.hosts:
                keys = folder / "keys" / "sites" / site.name / host.name
                keys.mkdir(parents=True)
                for name in ("ca.pem", "host.pem", "host.key"):
                    (keys / name).write_text(f"{name} of {host.name}")
                worker = self.worker(host.name)
                worker.parent.mkdir(parents=True)
                facts = {
                    "host": host.name,
                    "url": "?",
                    "keys": str(keys),
                    "data": "/",
                    "threads": 1,
                }
                worker.write_text(json.dumps(facts))
        self.provider = ManualProvider(folder, fleet(*faults), URL, say=self.said.append)

    def worker(self, host: str) -> Path:
        return self.folder / "sites" / fleet().site_of(host).name / host / "worker.json"

    async def start(self, host: str, within_s: float) -> None:
        argv = [sys.executable, "-m", "argosy.engine", str(self.worker(host))]
        log = self.folder / "log"
        await self.provider.start(host, argv, log=log, env={}, within_s=within_s)


def joined(site: str) -> Entry:
    return History().start(site).entries[0]


async def start_and_join(desk: Desk) -> None:
    starting = asyncio.create_task(desk.start("tokyo-1", within_s=10))
    while not desk.said:
        await asyncio.sleep(0)
    desk.provider.heard(joined("tokyo"))
    await starting


def test_a_host_is_started_when_its_first_record_stands_in_the_logbook(tmp_path: Path) -> None:
    desk = Desk(tmp_path)

    async def go() -> None:
        await start_and_join(desk)
        alive = await desk.provider.alive()
        assert (alive["tokyo-1"].pid, alive["tokyo-1"].started) == (None, "incarnation 1")
        await desk.start("tokyo-1", within_s=0.0)  # it is there: nothing is asked again

    asyncio.run(go())

    assert len(desk.said) == 1


def test_a_host_that_does_not_join_is_named_with_what_to_do(tmp_path: Path) -> None:
    desk = Desk(tmp_path)

    with pytest.raises(HostError) as failed:
        asyncio.run(desk.start("tokyo-1", within_s=0.01))

    text = str(failed.value)
    assert "tokyo-1 has not joined within 0 s" in text
    assert "tokyo-1.tar" in text
    assert URL in text


def test_a_bundle_holds_the_hosts_own_keys_for_its_owners_eyes_only(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    asyncio.run(start_and_join(desk))
    bundle = tmp_path / "join" / "tokyo-1.tar"

    with tarfile.open(bundle) as tar:
        files = {m.name: m for m in tar.getmembers() if m.isfile()}
        content = {name: tar.extractfile(m).read() for name, m in files.items()}  # type: ignore[union-attr]

    assert bundle.stat().st_mode & 0o777 == 0o600
    assert {m.mode for m in files.values()} == {0o600}
    assert content.pop("tokyo-1/keys/host.key") == b"host.key of tokyo-1"
    assert b"virginia" not in b"".join(content.values())
    assert json.loads(content["tokyo-1/worker.json"]) == {
        "host": "tokyo-1",
        "url": URL,
        "keys": "keys",
        "data": "data",
        "scratch": "scratch",
        "threads": 1,
    }


def test_the_command_that_is_shown_works_where_the_bundle_was_copied(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "a run")
    asyncio.run(start_and_join(desk))
    there = tmp_path / "another machine"
    there.mkdir()
    (there / "tokyo-1.tar").write_bytes((tmp_path / "a run/join/tokyo-1.tar").read_bytes())
    (command,) = [line.strip() for line in desk.said[0].splitlines() if "tar -xf" in line]

    listing = command.replace("python3 -m argosy.engine", "ls keys")
    done = subprocess.run(
        ["/bin/sh", "-c", listing], cwd=there, capture_output=True, text=True, check=True
    )

    assert command.endswith("python3 -m argosy.engine worker.json")
    assert shlex.split(command)[:3] == ["tar", "-xf", "tokyo-1.tar"]
    assert "host.key" in done.stdout
    assert "worker.json" in done.stdout


def test_a_bundle_without_a_key_is_refused_with_the_file(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    (tmp_path / "keys/sites/tokyo/tokyo-1/host.key").unlink()

    with pytest.raises(SpecError, match=r"host\.key"):
        asyncio.run(desk.start("tokyo-1", within_s=1))


def test_a_measurement_cannot_be_run_on_a_host_that_people_start(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    argv = ["python3", "-m", "argosy.engine.calibrate", "worker.json", "--job", "job.yaml"]

    with pytest.raises(HostError, match="tokens_per_s"):
        asyncio.run(desk.provider.start("tokyo-1", argv, log=tmp_path, env={}, within_s=1))


def test_a_host_far_away_is_asked_to_stop_and_is_not_known_to_have_ended_well(
    tmp_path: Path,
) -> None:
    desk = Desk(tmp_path)
    asyncio.run(start_and_join(desk))

    end = asyncio.run(desk.provider.stop("tokyo-1", within_s=1))

    assert end is not None
    assert not end.ok
    assert "Ctrl-C" in desk.said[-1]
    assert asyncio.run(desk.provider.stop("tokyo-1", within_s=1)) is None


def test_records_of_others_and_of_strangers_start_nobody(tmp_path: Path) -> None:
    desk = Desk(tmp_path)

    desk.provider.heard(History().lead(1).entries[0])
    desk.provider.heard(joined("atlantis"))

    assert asyncio.run(desk.provider.alive()) == {}


def test_faults_of_the_fleet_file_are_ignored_and_that_is_said(tmp_path: Path) -> None:
    desk = Desk(tmp_path, "kill tokyo at round 1")

    asyncio.run(desk.provider.prepare(fleet("kill tokyo at round 1"), within_s=1))

    assert desk.said == ["The faults in the fleet file are for the lab; here no plug is pulled."]


def test_a_place_far_away_is_as_the_fleet_file_says(tmp_path: Path) -> None:
    place = Desk(tmp_path).provider.place("virginia-1")

    assert (place.address, place.threads, place.scratch) == ("127.0.0.1", 2, Path("scratch"))
