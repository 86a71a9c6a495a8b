"""The worker of one host: `python -m argosy.engine worker.json`, or the same under torchrun.

Speaks JSON lines on stdout, logs on stderr. SIGTERM and SIGINT are notice: it posts what it has,
keeps a snapshot, and ends with exit code 0.
"""

import argparse
import logging
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

# Before torch: it would print thirty lines of C++ for every lost peer, which we say in one.
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")

from argosy.core.errors import HostError, SpecError
from argosy.engine.config import Workplace, read_workplace, under_torchrun
from argosy.engine.process import exit_code_of, say

if TYPE_CHECKING:
    from types import FrameType

    from argosy.engine.crew import Crew
    from argosy.engine.inbox import Inbox
    from argosy.engine.loop import Loop
    from argosy.engine.worker import Worker
    from argosy.logbook.outbox import Outbox


class Notice:
    """A signal asks the loop to leave; before there is one, it ends the process."""

    def __init__(self) -> None:
        self.loop: Loop | None = None
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._take)

    def _take(self, number: int, _: "FrameType | None") -> None:
        if self.loop is None or not self.loop.inside:
            sys.exit(0)  # nothing trained that is not kept, or kept on the way out
        self.loop.stop = f"asked to leave ({signal.Signals(number).name})"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m argosy.engine", description=__doc__)
    parser.add_argument("workplace", type=Path, help="worker.json, as the run has written it")
    parser.add_argument("--hosts", default="", help="under torchrun: the hosts in rank order, a,b")
    chosen = parser.parse_args(arguments)
    place = read_workplace(chosen.workplace)
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    hosts = tuple(chosen.hosts.split(",")) if chosen.hosts else ()
    if ranks > 1 and not hosts:
        raise SpecError(
            f"{ranks} ranks share one worker.json",
            where="torchrun",
            hint="say which host each rank is, in rank order: --hosts a,b",
        )
    if "RANK" in os.environ and hosts:
        place = under_torchrun(place, hosts, int(os.environ["RANK"]))
    notice = Notice()
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format=f"%(asctime)s {place.host} %(message)s"
    )
    logging.getLogger("httpx").setLevel(logging.WARNING)  # a line per request says nothing new
    return work(place, notice, hosts[:ranks])


def work(place: Workplace, notice: Notice, hosts: tuple[str, ...]) -> int:
    """One life: from the first read of the log to the last record."""
    import torch

    from argosy.engine.line import Line
    from argosy.engine.watch import serve_store
    from argosy.engine.worker import Worker, started
    from argosy.logbook.keys import next_incarnation

    torch.set_num_threads(max(1, place.threads))
    line = Line(place)
    worker = Worker(place, line.book, line.inbox)
    incarnation = next_incarnation(worker.history, place.site, place.host)
    outbox = line.speak(incarnation)
    several = len(worker.fleet.site(place.site).hosts) > 1 and not hosts
    store = serve_store() if several else None  # kept for as long as this process lives
    say(event="started", site=place.site, host=place.host, incarnation=incarnation)
    ended = False
    crew: Crew | None = None
    try:
        crew = crew_of(place, worker, line.inbox, outbox, hosts)
        port = store.port if store is not None else 0
        told = started(place.address, store_port=port, clock_offset_ms=line.clock_offset_ms)
        loop = notice.loop = worker.loop(outbox, crew, told, incarnation=incarnation)
        say(event="ready", site=place.site, host=place.host, pid=os.getpid())
        left = loop.run()
        say(event="left", site=place.site, host=place.host, reason=left.reason, done=left.done)
        ended = left.done
    finally:
        sent = line.close()
        if crew is not None:
            crew.close()
        del store
    if ended and not sent:
        raise HostError("the last records could not be sent", where=place.url)
    return 0


def crew_of(
    place: Workplace, worker: "Worker", inbox: "Inbox", outbox: "Outbox", hosts: tuple[str, ...]
) -> "Crew":
    from argosy.core.records import HostEvent
    from argosy.engine.crew import FixedCrew, SoloCrew
    from argosy.engine.store_crew import StoreCrew
    from argosy.engine.watch import StoreClient

    cuda = worker.device.type == "cuda"
    if len(hosts) > 1:
        from argosy.engine.group import c10d

        store, rank, _ = next(c10d.rendezvous("env://"))
        return FixedCrew(hosts, rank, StoreClient(store, "argosy"), place.address, cuda=cuda)
    if len(worker.fleet.site(place.site).hosts) == 1:
        return SoloCrew(place.host)

    def tell(what: str, detail: str) -> None:
        outbox.post(HostEvent(what=what, site=place.site, host=place.host, detail=detail))

    return StoreCrew(place.host, lambda: inbox.seating, tell=tell, address=place.address, cuda=cuda)


if __name__ == "__main__":
    code = exit_code_of(main, sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    # Collectives that were given up still have threads inside gloo, and an interpreter that takes
    # itself apart under them ends in std::terminate instead of an exit code.
    os._exit(code)
