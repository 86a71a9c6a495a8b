"""Which hosts of a site train, and how they cut its batch."""

from dataclasses import dataclass
from itertools import pairwise

from argosy.core.fleet import Link, Site
from argosy.core.job import Training
from argosy.core.plan import HostFacts, HostPlan
from argosy.planner.facts import LAN_MBIT, USABLE, VECTORS
from argosy.planner.words import listed, number, seconds


@dataclass(frozen=True, kw_only=True, slots=True)
class Trainer:
    """A site that trains: its crew, and how quick it is."""

    site: Site
    link: Link
    sources: tuple[str, ...]
    hosts: tuple[HostPlan, ...]
    seconds_per_step: float
    tokens_per_s: float

    @property
    def price_per_hour(self) -> float:
        used = {host.host for host in self.hosts}
        return sum(host.price_per_hour for host in self.site.hosts if host.name in used)


@dataclass(frozen=True, kw_only=True, slots=True)
class Crewed:
    """The quickest crew of a site; none when no host can train, and the reasons say why."""

    hosts: tuple[HostPlan, ...]
    seconds_per_step: float
    reasons: tuple[str, ...]


def crew(site: Site, training: Training, facts: tuple[HostFacts, ...], parameters: int) -> Crewed:
    """The quickest crew: more hosts cut the batch finer, but have gradients to add up."""
    usable, reasons = _usable(site, facts, parameters)
    quickest = sorted(usable, key=lambda fact: -fact.tokens_per_s)
    crews = [
        tuple(fact for fact in usable if fact in quickest[:count])
        for count in range(1, len(quickest) + 1)
    ]
    times = {
        facts: _step_s(facts, training, parameters)
        for facts in crews
        if all(shares(facts, training.batch))
    }
    if not times:
        return Crewed(hosts=(), seconds_per_step=0.0, reasons=tuple(reasons))
    best = min(times, key=lambda facts: (times[facts], len(facts)))
    hosts = tuple(map(_cut, best, shares(best, training.batch)))
    reasons.append(_why(site, hosts, times[best], times[crews[0]], training))
    left = tuple(fact.host for fact in usable if fact not in best)
    if left:
        reasons.append(
            f"{listed(left)} {'stay' if len(left) > 1 else 'stays'} idle: with more hosts a step of"
            f" {training.batch} sequences takes no less than {seconds(times[best])}."
        )
    return Crewed(hosts=hosts, seconds_per_step=times[best], reasons=tuple(reasons))


def shares(facts: tuple[HostFacts, ...], batch: int) -> list[int]:
    """Sequences of each host by its speed, to the nearest one, as the engine cuts them."""
    total = sum(fact.tokens_per_s for fact in facts)
    cuts = [
        round(batch * sum(fact.tokens_per_s for fact in facts[:count]) / total)
        for count in range(len(facts) + 1)
    ]
    return [stop - start for start, stop in pairwise(cuts)]


def _usable(
    site: Site, facts: tuple[HostFacts, ...], parameters: int
) -> tuple[list[HostFacts], list[str]]:
    usable, reasons = [], []
    for host in site.hosts:
        fact = next((fact for fact in facts if fact.host == host.name), None)
        if fact is None:
            reasons.append(f"{host.name} is left out: it was not measured.")
            continue
        have = min(fact.memory_gb, host.memory_gb or fact.memory_gb) * USABLE
        need = _need_gb(fact, parameters)
        if need > have:
            reasons.append(
                f"{host.name} is left out: training {number(parameters)} parameters needs"
                f" {need:.2f} GB there, it has {have:.2f} GB to give."
            )
        elif fact.tokens_per_s <= 0:
            reasons.append(f"{host.name} is left out: it trained nothing when it was measured.")
        else:
            usable.append(fact)
    return usable, reasons


def _need_gb(fact: HostFacts, parameters: int) -> float:
    """At its peak; the exchange's vectors lie in main memory, so a GPU does not carry them."""
    return fact.peak_memory_gb + (0.0 if fact.gpus else VECTORS * 4 * parameters / 1e9)


def _step_s(facts: tuple[HostFacts, ...], training: Training, parameters: int) -> float:
    """One optimizer step: the slowest share, then the gradients' all-reduce inside the site."""
    count = len(facts)
    compute = max(
        share * training.sequence / fact.tokens_per_s
        for fact, share in zip(facts, shares(facts, training.batch), strict=True)
    )
    allreduce = 2 * (count - 1) / count * 4 * parameters * 8 / (LAN_MBIT * 1e6)
    return compute + allreduce


def _cut(fact: HostFacts, share: int) -> HostPlan:
    """As many micro-batches as the measured size makes necessary, about equally large."""
    accumulation = -(-share // max(1, fact.micro_batch))
    return HostPlan(
        host=fact.host,
        micro_batch=-(-share // accumulation),
        accumulation=accumulation,
        tokens_per_s=fact.tokens_per_s,
    )


def _why(
    site: Site, hosts: tuple[HostPlan, ...], together: float, alone: float, training: Training
) -> str:
    if len(hosts) == 1:
        only = hosts[0]
        return (
            f"{site.name} trains on {only.host}: {only.accumulation} x {only.micro_batch} sequences"
            f" a step, in the largest micro-batch that was quick and fits,"
            f" {number(only.tokens_per_s)} tokens/s."
        )
    return (
        f"{site.name} trains on {listed(tuple(host.host for host in hosts))} together, which share"
        f" {training.batch} sequences by their speed: {seconds(together)} per step instead of"
        f" {seconds(alone)} on the quickest alone (gradients over {LAN_MBIT:,.0f} Mbit/s, assumed)."
    )
