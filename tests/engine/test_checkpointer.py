"""The helper that keeps the agreed model: it begins, follows, keeps, and begins again anywhere."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fakes import run as fake
from fakes.logbook import FakeLogbook, Signing

from argosy.core.errors import DamagedError, HostError
from argosy.core.plan import Plan
from argosy.core.records import (
    CONTROLLER,
    Body,
    Checkpointed,
    Commit,
    Contribution,
    Digest,
    Drain,
    Ended,
    HostEvent,
    Lead,
    Member,
    Planned,
    Roster,
    RunBegun,
    Shard,
    Writer,
)
from argosy.engine.checkpoint_blob import Checkpoint, unpack
from argosy.engine.checkpointer import Keeper, Patient, follow
from argosy.exchange.codec import encode
from argosy.exchange.outer import combine, outer_step

JOB = """
version: 1
name: small
model:
  config: {model_type: llama, hidden_size: 16, num_hidden_layers: 1, num_attention_heads: 2,
           intermediate_size: 16}
sources:
  - {name: text, path: text.txt, country: DE, personal: no}
training: {tokens: 100000, sequence: 16, batch: 4, seed: 3}
"""
HELPER = "checkpointer"


def plan(every: int = 2) -> Plan:
    first = fake.plan()
    return replace(first, exchange=replace(first.exchange, codec="fp32", checkpoint_every=every))


class Run:
    """A log as a controller and two sites would write it, and helpers that follow it."""

    def __init__(self, root: Path, every: int = 2) -> None:
        self.book = FakeLogbook()
        self.root = root
        self.lives = 0
        self.rounds = 0
        self.payloads: dict[tuple[str, int], np.ndarray] = {}
        for body in (
            RunBegun(run="r", name="small", argosy="0", job=JOB, fleet="", authority=""),
            Roster(seats=(), torch=""),
            Lead(term=1),
            Planned(plan=plan(every), reason="first plan"),
        ):
            self.book.say(body)

    def helper(self, post: Callable[[Body], object] | None = None) -> Keeper:
        """A new life of the helper that has heard all there is."""
        self.lives += 1
        me = Writer(site=CONTROLLER, host=HELPER, incarnation=self.lives)
        keeper = Keeper(
            self.book, post or (lambda body: self.book.say((me, body))), host=HELPER, root=self.root
        )
        return self.told(keeper, 1)

    def told(self, keeper: Keeper, from_seq: int) -> Keeper:
        for entry in self.book.read(from_seq):
            keeper.hear(entry)
        return keeper

    def agree(self, *, last: bool = False, payload: bytes | None = None) -> None:
        """Both sites post, and the next round is committed."""
        self.rounds += 1
        n = self.rounds
        size = self.kept()[0].parameters
        members = []
        for index, site in enumerate(("frankfurt", "virginia")):
            values = np.random.default_rng([n, index]).standard_normal(size).astype(np.float32)
            self.payloads[site, n] = values
            halves = ((0, 128), (128, size))
            shards = [
                Shard(
                    parameter="*",
                    start=start,
                    stop=stop,
                    blob=self.book.put(payload or encode(values[start:stop], "fp32")),
                    bytes=1,
                )
                for start, stop in halves
            ]
            self.book.say(
                (
                    site,
                    Contribution(
                        fragment=0, n=n, base=n - 1, tokens=100, steps=4, trained=100 * n,
                        codec="fp32", form="update", rule="", cursor="{}", incarnation=1,
                        shards=tuple(reversed(shards)),
                    ),
                )
            )  # fmt: skip
            members.append(Member(site=site, n=n, tokens=100, steps=4))
        self.book.say(
            Commit(
                fragment=0, round=n, term=1, plan=1, members=tuple(members), expired=(),
                tokens=200 * n, last=last, head_seq=0, head_chain="",
            )
        )  # fmt: skip

    def kept(self) -> list[Checkpointed]:
        bodies = (entry.body for entry in self.book.read(1))
        return [body for body in bodies if isinstance(body, Checkpointed)]

    def digests(self) -> dict[int, str]:
        bodies = (entry.body for entry in self.book.read(1))
        return {body.round: body.digest for body in bodies if isinstance(body, Digest)}

    def model(self, index: int = -1) -> Checkpoint:
        return unpack(self.book.get(self.kept()[index].blob))


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def test_it_begins_with_the_initial_model(run: Run) -> None:
    run.helper().catch_up()

    record, model = run.kept()[0], run.model()
    assert (record.round, record.at_seq) == (0, 0)
    assert record.parameters == model.a.size
    assert record.digest == model.digest
    assert json.loads(record.table)[0] == ["model.embed_tokens.weight", [257, 16]]
    assert json.loads(model.config)["model_type"] == "llama"
    assert not model.v.any()
    assert model.a.std() > 0


def test_the_seed_makes_the_initial_model(run: Run, tmp_path: Path) -> None:
    run.helper().catch_up()
    other = Run(tmp_path)
    other.helper().catch_up()

    np.testing.assert_array_equal(run.model().a, other.model().a)


def test_it_replays_commits_and_says_what_the_model_is(run: Run) -> None:
    keeper = run.helper()
    keeper.catch_up()
    first = run.model()
    for _ in range(2):
        run.agree()
    run.told(keeper, 1).catch_up()

    a, v = first.a.copy(), first.v.copy()
    half = np.float32(0.5)
    for n in (1, 2):
        sent = [run.payloads[site, n] for site in ("frankfurt", "virginia")]
        exchange = plan().exchange
        mean = combine(sent, [half, half])
        outer_step(a, v, mean, exchange.outer_learning_rate, exchange.outer_momentum)
    kept = run.model()
    np.testing.assert_array_equal(kept.a, a)
    np.testing.assert_array_equal(kept.v, v)
    assert (kept.round, kept.tokens, kept.plan) == (2, 400, 1)
    assert kept.last_n == {"frankfurt": 2, "virginia": 2}
    assert sorted(run.digests()) == [1, 2]
    assert run.digests()[2] == kept.digest
    at = run.book.read(kept.seq)[0]
    assert isinstance(at.body, Commit)
    assert (at.body.round, at.chain) == (2, kept.chain)


def test_it_keeps_every_so_many_rounds_and_the_last(run: Run) -> None:
    keeper = run.helper()
    keeper.catch_up()
    for last in (False, False, True):
        run.agree(last=last)
        assert not keeper.finished
        run.told(keeper, 1).catch_up()

    assert [record.round for record in run.kept()] == [0, 2, 3]
    assert keeper.finished
    assert keeper.round == 3


def test_in_a_drain_it_keeps_what_there_is_because_no_last_round_may_come(run: Run) -> None:
    keeper = run.helper()
    keeper.catch_up()
    run.agree()
    run.told(keeper, 1).catch_up()
    before = [record.round for record in run.kept()]
    run.book.say(Drain(term=1, reason="stopped"))

    run.told(keeper, 1).catch_up()

    assert before == [0]
    assert [record.round for record in run.kept()] == [0, 1]
    assert run.kept()[-1].digest == run.digests()[1]
    assert not keeper.finished


def test_begun_again_it_goes_on_from_the_newest_checkpoint(run: Run) -> None:
    run.helper().catch_up()
    for _ in range(3):
        run.agree()
    run.helper().catch_up()
    undisturbed = run.digests()

    again = run.helper()
    again.catch_up()
    run.agree(last=True)
    run.told(again, 1).catch_up()

    assert [record.round for record in run.kept()] == [0, 2, 4]
    assert run.digests() == undisturbed | {4: run.model().digest}
    assert again.finished


class Killed(Exception):
    """The helper died at this record."""


@pytest.mark.parametrize("survived", range(8))
def test_killed_at_any_record_it_writes_nothing_twice(run: Run, survived: int) -> None:
    whole = Run(run.root)
    for it in (whole, run):
        it.helper().catch_up()
        for last in (False, False, False, True):
            it.agree(last=last)
    whole.helper().catch_up()
    me = Writer(site=CONTROLLER, host=HELPER, incarnation=2)
    written: list[int] = []

    def post(body: Body) -> None:
        if len(written) == survived:
            raise Killed
        written.append(run.book.say((me, body)))

    try:
        run.helper(post).catch_up()
    except Killed:
        run.helper().catch_up()

    assert [record.round for record in run.kept()] == [0, 2, 4]
    assert len([e for e in run.book.read(1) if isinstance(e.body, Digest)]) == 4
    assert run.digests() == whole.digests()
    assert run.model().digest == whole.model().digest


def test_a_damaged_checkpoint_is_told_and_the_one_before_is_used(run: Run) -> None:
    run.helper().catch_up()
    for _ in range(2):
        run.agree()
    run.helper().catch_up()
    newest = run.kept()[-1].blob
    run.book.blobs[newest] = run.book.blobs[newest][:-4]

    again = run.helper()
    again.catch_up()

    assert again.round == 2
    said = [e.body for e in run.book.read(1) if isinstance(e.body, HostEvent)]
    assert len(said) == 1
    assert "the checkpoint of round 2 cannot be used" in said[0].detail
    assert len(run.kept()) == 2


def test_a_checkpoint_of_another_round_is_not_taken(run: Run) -> None:
    run.helper().catch_up()
    for _ in range(2):
        run.agree()
    run.helper().catch_up()
    first, newest = run.kept()
    run.book.blobs[newest.blob] = run.book.blobs[first.blob]

    again = run.helper()
    again.catch_up()

    assert again.round == 2


def test_without_any_whole_checkpoint_it_gives_up(run: Run) -> None:
    run.helper().catch_up()
    run.book.blobs[run.kept()[0].blob] = b""

    with pytest.raises(DamagedError):
        run.helper().catch_up()


def test_a_payload_that_does_not_decode_is_void_for_it_as_for_everyone(run: Run) -> None:
    run.helper().catch_up()
    before = run.model()
    run.agree(last=True, payload=b"what is this")

    run.helper().catch_up()

    assert run.model().digest == before.digest


def test_a_logbook_that_has_ended_is_left_alone(run: Run) -> None:
    run.helper().catch_up()
    run.agree()
    run.book.say(Ended(outcome="stopped", rounds=1, tokens=200, head_seq=0, head_chain=""))
    length = len(run.book.raws)

    keeper = run.helper()
    keeper.catch_up()

    assert keeper.finished
    assert len(run.book.raws) == length


def test_words_of_sites_are_not_its_own(run: Run) -> None:
    """A site's digests and another fragment's are no reference."""
    run.helper().catch_up()
    run.agree()
    run.book.say(("frankfurt", Digest(fragment=0, round=1, digest="sha256:00")))
    me = Writer(site=CONTROLLER, host=HELPER, incarnation=1)
    run.book.say((me, Digest(fragment=1, round=1, digest="sha256:00")))

    run.helper().catch_up()

    mine = [
        entry.body
        for entry in run.book.read(1)
        if isinstance(entry.body, Digest) and entry.writer.incarnation == 2
    ]
    assert [digest.round for digest in mine] == [1]


def test_an_absent_logbook_is_waited_out(run: Run) -> None:
    run.book.away = True
    waited: list[float] = []

    def pause(seconds: float) -> None:
        waited.append(seconds)
        run.book.away = len(waited) < 3

    patient = Patient(run.book, within_s=10, pause=pause)

    assert len(patient.read(1)) == 4
    assert len(waited) == 3
    assert patient.get(patient.put(b"blob")) == b"blob"


def test_patience_ends(run: Run) -> None:
    run.book.away = True
    waited: list[float] = []

    with pytest.raises(HostError):
        Patient(run.book, within_s=5, pause=waited.append).read(1)

    assert sum(waited) == 5


def test_it_follows_until_the_last_round_is_kept(tmp_path: Path) -> None:
    keys = Signing(tmp_path).seat(CONTROLLER, HELPER)
    run = Run(tmp_path)

    def ready() -> None:
        run.agree()
        run.agree(last=True)

    patient = Patient(run.book, within_s=5)

    assert follow(patient, keys, host=HELPER, root=tmp_path, ready=ready) == 2
    assert [record.round for record in run.kept()] == [0, 2]
    assert follow(patient, keys, host=HELPER, root=tmp_path, ready=lambda: None) == 2
    assert len(run.kept()) == 2
