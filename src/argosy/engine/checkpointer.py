"""The helper beside the logbook that holds the agreed model: it begins it, follows it, keeps it.

    python -m argosy.engine.checkpointer worker.json

It writes the initial model (round 0), then replays every commit with NumPy, says after each round
what the agreed model's digest is (the reference for all sites), and puts a checkpoint into the
logbook every `checkpoint_every` rounds, in a drain and at the last. All it knows comes from the logbook, so it
may be killed and started again at any point; what it has written before is never written twice.
"""

import argparse
import logging
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from argosy.core.errors import DamagedError, HostError
from argosy.core.records import (
    CONTROLLER,
    Body,
    Checkpointed,
    Commit,
    Digest,
    Entry,
    Expired,
    HostEvent,
    RunBegun,
)
from argosy.engine.checkpoint_blob import Checkpoint, pack, unpack
from argosy.engine.config import read_workplace
from argosy.engine.process import exit_code_of, say
from argosy.exchange.agreement import Agreement
from argosy.exchange.replay import Replay
from argosy.logbook.client import RemoteLogbook
from argosy.logbook.keys import Pen, next_incarnation

if TYPE_CHECKING:
    from argosy.core.job import Job
    from argosy.logbook import Logbook

log = logging.getLogger(__name__)

WAIT_S = 20.0  # of a long poll
AGAIN_S = 1.0  # after a failed call
FRAGMENT = 0

T = TypeVar("T")


class Keeper:
    """The agreed model, as far as the records heard say; it writes only what is missing."""

    def __init__(
        self, logbook: "Logbook", post: Callable[[Body], object], *, host: str, root: Path
    ) -> None:
        self._logbook = logbook
        self._post = post
        self._host = host
        self._root = root  # the job's folder
        self._agreement = Agreement()
        self._job: Job | None = None
        self._chains: dict[int, str] = {}  # of the commits' records
        self._kept: dict[int, Checkpointed] = {}
        self._digests: set[int] = set()  # rounds for which the reference has been written
        self._checkpoint: Checkpoint | None = None  # the newest that could be read: names, n
        self._replay: Replay | None = None
        self._last_n: dict[str, int] = {}

    @property
    def round(self) -> int:
        return self._replay.round if self._replay else -1

    @property
    def finished(self) -> bool:
        """Nothing more is to come: the last round is kept, or the logbook is closed."""
        if self._agreement.ended is not None:
            return True
        return self._agreement.last(FRAGMENT) and self._agreement.round(FRAGMENT) in self._kept

    def hear(self, entry: Entry) -> None:
        self._agreement.hear(entry)
        mine = entry.writer.site == CONTROLLER
        match entry.body:
            case RunBegun() as begun:
                from argosy.spec import parse_job

                self._job = parse_job(begun.job)
            case Commit():
                self._chains[entry.seq] = entry.chain
            case Checkpointed() as checkpointed if mine:
                self._kept[checkpointed.round] = checkpointed
            case Digest(fragment=fragment, round=round_) if mine and fragment == FRAGMENT:
                self._digests.add(round_)
            case _:
                pass

    def catch_up(self) -> None:
        """Begin or open the agreed model, then apply every commit that has been heard."""
        if self._agreement.ended is not None:
            return
        if self._replay is None:
            self._open()
        for seq, commit in self._agreement.commits[FRAGMENT][self.round :]:
            self._apply(seq, commit)
        if self._agreement.draining is not None and self.round not in self._kept:
            # The sites may all be gone; then no commit will come that says it is the last.
            seq, commit = self._agreement.commits[FRAGMENT][self.round - 1]
            self._keep(seq, self._chains[seq], commit)

    def _open(self) -> None:
        """From the newest checkpoint that is whole; without any, from the initial model."""
        for round_ in sorted(self._kept, reverse=True):
            record = self._kept[round_]
            try:
                checkpoint = unpack(self._logbook.get(record.blob), where=f"round {round_}")
                if (checkpoint.round, checkpoint.digest) != (round_, record.digest):
                    raise DamagedError("it holds another model than its record names")
            except DamagedError as damage:
                if round_ == 0:
                    raise
                self._tell(f"the checkpoint of round {round_} cannot be used: {damage.what}")
                continue
            self._take(checkpoint)
            return
        self._take(self._initial())
        self._keep(0, "")

    def _initial(self) -> Checkpoint:
        import torch

        from argosy.engine import models, tokens

        assert self._job is not None, "a logbook begins with its run record"
        training = self._job.training
        tokenizer = tokens.open_tokenizer(training.tokenizer, self._root)
        torch.manual_seed(training.seed)
        with models.written_at(self._job.model_where):
            module = models.build(self._job.model, tokenizer.vocabulary, root=self._root)
            models.check(module, tokenizer.vocabulary, training.sequence)
        a = models.flat(module)
        if not np.isfinite(a).all():
            raise DamagedError("the initial model holds values that are not finite", where="model")
        return Checkpoint(
            table=tuple((name, tuple(shape)) for name, shape in models.table(module)),
            a=a,
            v=np.zeros_like(a),
            config=models.described(module),
            job=self._job.name,
        )

    def _take(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        self._replay = Replay(checkpoint.a, checkpoint.v, checkpoint.round)
        self._last_n = dict(checkpoint.last_n)

    def _apply(self, seq: int, commit: Commit) -> None:
        assert self._replay is not None
        plan = self._agreement.plans[commit.plan]
        payloads = {member.site: self._payload(member.site, member.n) for member in commit.members}
        self._replay.apply(commit, plan, payloads)
        self._last_n |= {member.site: member.n for member in commit.members}
        if commit.round not in self._digests:
            self._post(Digest(fragment=FRAGMENT, round=commit.round, digest=self._replay.digest()))
        due = commit.last or commit.round % plan.exchange.checkpoint_every == 0
        if due and commit.round not in self._kept:
            self._keep(seq, self._chains[seq], commit)

    def _payload(self, site: str, n: int) -> bytes:
        """Whatever its record names. (A frame that does not decode is void; that is for replay.)"""
        post = self._agreement.post(site, n, FRAGMENT)
        assert post is not None, "a commit that counts names posts that count"
        shards = sorted(post.body.shards, key=lambda shard: shard.start)
        return b"".join(self._logbook.get(shard.blob) for shard in shards)

    def _keep(self, seq: int, chain: str, commit: Commit | None = None) -> None:
        assert self._replay is not None
        assert self._checkpoint is not None
        old = self._checkpoint
        checkpoint = Checkpoint(
            table=old.table,
            a=self._replay.a,
            v=self._replay.v,
            round=self._replay.round,
            seq=seq,
            chain=chain,
            plan=commit.plan if commit else 0,
            tokens=commit.tokens if commit else 0,
            last_n=self._last_n,
            config=old.config,
            job=old.job,
        )
        blob = pack(checkpoint)
        record = Checkpointed(
            round=checkpoint.round,
            at_seq=seq,
            blob=self._logbook.put(blob),
            bytes=len(blob),
            digest=checkpoint.digest,
            parameters=int(checkpoint.a.size),
            table=checkpoint.table_json,
            last_n=tuple(Expired(site=site, n=n) for site, n in sorted(self._last_n.items())),
        )
        self._post(record)
        self._kept[record.round] = record
        log.info("round %d is kept: %d bytes", record.round, record.bytes)

    def _tell(self, detail: str) -> None:
        log.warning("%s", detail)
        self._post(HostEvent(what="checkpoint", site=CONTROLLER, host=self._host, detail=detail))


class Patient:
    """A logbook whose absence is waited out: beside its server, away means that it restarts."""

    def __init__(
        self, logbook: "Logbook", *, within_s: float, pause: Callable[[float], None] = time.sleep
    ) -> None:
        self._logbook = logbook
        self._within_s = within_s
        self._pause = pause

    def append(self, signed: bytes) -> int:
        return self._wait(lambda: self._logbook.append(signed))

    def read(self, from_seq: int, wait_s: float = 0.0) -> list[Entry]:
        return self._wait(lambda: self._logbook.read(from_seq, wait_s))

    def put(self, blob: bytes) -> str:
        return self._wait(lambda: self._logbook.put(blob))

    def get(self, digest: str) -> bytes:
        return self._wait(lambda: self._logbook.get(digest))

    def _wait(self, call: Callable[[], T]) -> T:
        waited = 0.0
        while True:
            try:
                return call()
            except HostError as away:
                if waited >= self._within_s:
                    raise
                log.warning("the logbook is away (%s)", away.what)
            self._pause(AGAIN_S)
            waited += AGAIN_S


def follow(
    logbook: "Logbook", keys: Path, *, host: str, root: Path, ready: Callable[[], None]
) -> int:
    """Keep the agreed model until nothing more is to come. The newest round that it holds."""
    entries = _all(logbook)
    pen = Pen.open(keys, next_incarnation(entries, CONTROLLER, host))

    def post(body: Body) -> None:
        logbook.append(pen.sign(body, time.time_ns() // 1_000_000))

    keeper = Keeper(logbook, post, host=host, root=root)
    heard = 0
    for entry in entries:
        keeper.hear(entry)
        heard = entry.seq
    keeper.catch_up()
    ready()
    while not keeper.finished:
        for entry in logbook.read(heard + 1, WAIT_S):
            keeper.hear(entry)
            heard = entry.seq
        keeper.catch_up()
    return keeper.round


def _all(logbook: "Logbook") -> list[Entry]:
    entries: list[Entry] = []
    while batch := logbook.read(len(entries) + 1):
        entries += batch
    return entries


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m argosy.engine.checkpointer")
    parser.add_argument("worker", type=Path, help="worker.json")
    place = read_workplace(parser.parse_args(arguments).worker)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)  # a line per request says nothing new
    logbook = RemoteLogbook(place.url, place.keys, server_name=place.server_name)
    patient = Patient(logbook, within_s=place.orphan_after_s)
    rounds = follow(
        patient,
        place.keys,
        host=place.host,
        root=place.data,
        ready=lambda: say(event="ready", site=place.site, host=place.host),
    )
    say(event="finished", round=rounds)
    return 0


if __name__ == "__main__":
    sys.exit(exit_code_of(main, sys.argv[1:]))
