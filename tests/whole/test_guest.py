"""A training loop of somebody's own, started with the bundle of a real run."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from fakes.whole import BATCH, MARK, OWN, SEQUENCE, Run, Town, entries_of, unpacked

from argosy.core.records import Contribution, Entry, HostStarted
from argosy.lab import checkers
from argosy.lab.checkers import OK
from argosy.run.audit import audit

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

Keep = Callable[[Run], Run]
TWO = {"frankfurt": ("frankfurt-1",), "tokyo": ("tokyo-1",)}
LOOP = f"""\
import sys
import torch
from torch.nn.functional import cross_entropy

import argosy
sys.path.insert(0, "data")
from town_model import Three

text = torch.frombuffer(bytearray(open("data/data/japanese.txt", "rb").read()), dtype=torch.uint8)
model = Three(257, width=64)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
with argosy.Site(model, optimizer) as site:
    torch.manual_seed(site.steps)
    while True:
        starts = torch.randint(len(text) - {SEQUENCE + 1}, ({BATCH},)).tolist()
        batch = torch.stack([text[at : at + {SEQUENCE + 1}] for at in starts]).long()
        loss = cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if not site.step(tokens={BATCH * SEQUENCE}, loss=loss):
            break
"""


def test_a_loop_of_ones_own_joins_is_asked_to_leave_comes_back_and_ends_with_the_run(
    tmp_path: Path, keep: Keep
) -> None:
    job = Town(hosts=TWO, model=OWN).write(tmp_path / "job")
    run = keep(Run(tmp_path, "argosy", "train", str(job), "--yes", "--declared"))
    run.wait_for(lambda _: run.said.count("tar -xf") == 2, "the two commands to run")
    machines = tmp_path / "machines"
    homes = {
        Path(bundle).stem: unpacked(machines, bundle, asked, job=job)
        for bundle, asked in re.findall(r"copy (\S+\.tar) there.*?\n\s+(tar -xf .*)", run.said)
    }

    def start(host: str, program: list[str]) -> "subprocess.Popen[bytes]":
        surroundings = {**os.environ, MARK: run.mark, "ARGOSY_WORKPLACE": "worker.json"}
        return subprocess.Popen([sys.executable, *program], cwd=homes[host][0], env=surroundings)

    (homes["tokyo-1"][0] / "loop.py").write_text(LOOP)
    ordinary = start("frankfurt-1", homes["frankfurt-1"][1])
    guest = start("tokyo-1", ["loop.py"])
    run.wait_for(lambda told: posts_of(told, "tokyo") >= 3, "three posts of the guest's")
    guest.send_signal(signal.SIGTERM)
    assert guest.wait(60) == 0
    before = posts_of(run.entries(), "tokyo")
    again = start("tokyo-1", ["loop.py"])
    run.wait_for(lambda told: posts_of(told, "tokyo") >= before + 3, "three more posts")
    code = run.stop()

    assert code == 0, run.said
    assert [ordinary.wait(60), again.wait(60)] == [0, 0]
    entries = entries_of(run.folder)
    assert audit(run.folder).ok
    assert checkers.same_model(entries, at_the_end=TWO) == OK
    assert checkers.ledger_closes(entries) == OK
    lives = [
        (entry.writer.incarnation, entry.body.resumed_tokens)
        for entry in entries
        if isinstance(entry.body, HostStarted) and entry.writer.site == "tokyo"
    ]
    assert [incarnation for incarnation, _ in lives] == [1, 2]
    assert lives[0][1] == 0
    assert lives[1][1] > 0
    assert run.alive() == {}


def posts_of(entries: list[Entry], site: str) -> int:
    return sum(isinstance(e.body, Contribution) and e.writer.site == site for e in entries)
