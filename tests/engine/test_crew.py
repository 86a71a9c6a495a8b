"""Crews on real stores, with threads for hosts: who comes together, and what ends an epoch."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from argosy.core.errors import HostError
from argosy.engine.crew import FixedCrew, Formed, SoloCrew
from argosy.engine.group import c10d
from argosy.engine.store_crew import StoreCrew
from argosy.engine.watch import Seating, StoreClient, serve_store

WITHIN_S = 40.0


class Site:
    """The hosts of one site in one process. `epoch` is the crew record's."""

    def __init__(self, *hosts: str) -> None:
        self.store = serve_store()
        self.hosts = hosts
        self.epoch = 1
        self.events: list[tuple[str, str]] = []
        self.crews: dict[str, StoreCrew] = {}

    def seating(self) -> Seating:
        return Seating(
            epoch=self.epoch, hosts=self.hosts, address="127.0.0.1", port=self.store.port
        )

    def crew(self, host: str) -> StoreCrew:
        tell = lambda what, detail: self.events.append((what, detail))  # noqa: E731
        self.crews[host] = StoreCrew(host, self.seating, tell=tell, address="127.0.0.1")
        return self.crews[host]

    def form(self, *turns: tuple[str, int]) -> dict[str, Formed]:
        """These hosts come at once, each with so many operations done."""
        formed: dict[str, Formed] = {}

        def come(host: str, turn: int) -> None:
            crew = self.crews.get(host) or self.crew(host)
            formed[host] = crew.form((0, turn), WITHIN_S)

        threads = [threading.Thread(target=come, args=each) for each in turns]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WITHIN_S)
        return formed


@contextmanager
def site(*hosts: str) -> Iterator[Site]:
    made = Site(*hosts)
    try:
        yield made
    finally:
        for crew in made.crews.values():
            crew.close()


def soon(there: Callable[[], object], within_s: float = WITHIN_S) -> None:
    deadline = time.monotonic() + within_s
    while not there():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_first_epoch_is_everybody_with_the_furthest_state() -> None:
    with site("a", "b", "c") as here:
        formed = here.form(("a", 1), ("b", 7), ("c", 7))

        assert {host: f.group.rank for host, f in formed.items()} == {"a": 0, "b": 1, "c": 2}
        assert {(f.hosts, f.source, f.fresh) for f in formed.values()} == {
            (("a", "b", "c"), 1, True)
        }


def test_after_a_complaint_all_come_again_and_equal_states_need_not_be_sent() -> None:
    with site("a", "b") as here:
        here.form(("a", 1), ("b", 1))
        here.crews["b"].report("my peer is gone")
        soon(here.crews["a"].over)

        assert "b: my peer is gone" in str(here.crews["a"].over())
        formed = here.form(("a", 5), ("b", 5))

        assert [f.fresh for f in formed.values()] == [False, False]


def test_a_rank_that_is_a_step_behind_takes_the_state_of_the_other() -> None:
    with site("a", "b") as here:
        here.form(("a", 1), ("b", 1))
        formed = here.form(("a", 5), ("b", 6))

        assert (formed["a"].fresh, formed["a"].source) == (True, 1)


def test_who_does_not_come_is_left_out_and_knocks_later() -> None:
    with site("a", "b", "c") as here:
        here.form(("a", 1), ("b", 1), ("c", 1))
        here.crews.pop("c").close()  # its heart stands still
        formed = here.form(("a", 2), ("b", 2))
        assert formed["a"].hosts == ("a", "b")
        assert not here.crews["a"].newcomers()

        late = threading.Thread(target=lambda: here.form(("c", 0)))
        late.start()
        joined = formed
        while "c" not in joined["a"].hosts:  # on a busy machine it may come late, and knocks again
            soon(here.crews["a"].newcomers)
            joined = here.form(("a", 3), ("b", 3))
        late.join(WITHIN_S)

        assert joined["a"].hosts == ("a", "b", "c")
        assert (joined["a"].source, joined["a"].fresh) == (0, True)


def test_another_crew_record_ends_the_epoch_and_nobody_waits_for_who_is_not_there_yet() -> None:
    with site("a", "b") as here:
        here.form(("a", 1), ("b", 1))
        here.hosts = ("b", "a", "new")
        here.epoch = 2

        assert here.crews["a"].over() == "the controller named another crew"
        began = time.monotonic()
        formed = here.form(("a", 4), ("b", 4))

        assert formed["b"].hosts == ("b", "a")
        assert formed["b"].group.rank == 0
        assert time.monotonic() - began < 25.0, "or it has waited for `new`"


def test_a_host_that_leaves_on_purpose_is_not_waited_for() -> None:
    with site("a", "b") as here:
        here.form(("a", 1), ("b", 1))
        here.crews["b"].leave()
        here.crews.pop("b").close()

        formed = here.form(("a", 2))

        assert formed["a"].hosts == ("a",)
        assert formed["a"].group.size == 1


def test_words_left_for_the_leader_are_found() -> None:
    with site("a", "b") as here:
        here.form(("a", 1), ("b", 1))
        assert not here.crews["a"].noted("put/1")

        here.crews["b"].note("put/1")

        soon(lambda: here.crews["a"].noted("put/1"))


def test_without_a_crew_record_a_host_gives_up_in_time() -> None:
    crew = StoreCrew("a", lambda: None, tell=lambda *_: None, address="127.0.0.1")

    with pytest.raises(HostError, match="no crew of this site to join"):
        crew.form((0, 0), 0.05)
    assert crew.over() == "no epoch yet"


def test_a_lost_leader_is_told_once_and_the_next_one_is_followed() -> None:
    with site("b") as here:
        gone = Seating(epoch=1, hosts=("a", "b"), address="127.0.0.1", port=9)
        now = {"seating": gone}
        told: list[str] = []

        def tell(what: str, detail: str) -> None:
            told.append(what)
            here.epoch = 2
            now["seating"] = here.seating()

        crew = StoreCrew("b", lambda: now["seating"], tell=tell, address="127.0.0.1")
        here.crews["b"] = crew

        formed = crew.form((0, 3), WITHIN_S)

        assert formed.hosts == ("b",)
        assert told == ["lost"]


def test_a_site_of_one_host_needs_no_store() -> None:
    crew = SoloCrew("a")

    formed = crew.form((0, 5), 1.0)

    assert (formed.group.size, formed.hosts, formed.fresh) == (1, ("a",), False)
    assert crew.leads(1.0)
    assert crew.over() is None
    assert not crew.newcomers()
    crew.leave()
    crew.close()


def test_under_torchrun_the_ranks_are_fixed_and_a_lost_one_ends_all() -> None:
    store = c10d.HashStore()
    crews = [FixedCrew(("a", "b"), rank, StoreClient(store), "127.0.0.1") for rank in (0, 1)]
    formed: list[Formed] = []
    threads = [
        threading.Thread(target=lambda c=crew, t=turn: formed.append(c.form((0, t), WITHIN_S)))
        for crew, turn in zip(crews, (1, 4), strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WITHIN_S)

    assert sorted(f.group.rank for f in formed) == [0, 1]
    assert {f.source for f in formed} == {1}
    assert [crew.leads(1.0) for crew in crews] == [True, False]
    crews[0].report("no answer")
    assert crews[0].over() == "no answer"
    with pytest.raises(HostError, match="a rank was lost"):
        crews[0].form((0, 5), WITHIN_S)
