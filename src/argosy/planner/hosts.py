"""Which hosts of a site train, and how they cut its batch."""

from dataclasses import dataclass

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
    """Equal shares, so that one step is one plain mean of gradients; as many hosts as pay."""
    reasons = []
    usable = []
    for host in site.hosts:
        fact = next((fact for fact in facts if fact.host == host.name), None)
        if fact is None or fact.tokens_per_s <= 0:
            reasons.append(f"{host.name} is left out: its speed was not measured.")
            continue
        need, have = _need_gb(fact, parameters), fact.memory_gb * USABLE
        if need > have:
            reasons.append(
                f"{host.name} is left out: training {number(parameters)} parameters needs"
                f" {need:.2f} GB there, it has {have:.2f} GB to give."
            )
            continue
        usable.append(fact)
    if not usable:
        return Crewed(hosts=(), seconds_per_step=0.0, reasons=tuple(reasons))
    quickest = sorted(usable, key=lambda fact: -fact.tokens_per_s)
    times = {
        count: _step_s(quickest[:count], training, parameters)
        for count in range(1, len(quickest) + 1)
        if training.batch % count == 0
    }
    count = min(times, key=lambda count: (times[count], count))
    chosen = {fact.host for fact in quickest[:count]}
    hosts = tuple(_cut(fact, training, count) for fact in usable if fact.host in chosen)
    reasons.append(_why(site, hosts, times, training))
    left = tuple(fact.host for fact in usable if fact.host not in chosen)
    if left:
        verb = "stay" if len(left) > 1 else "stays"
        reasons.append(
            f"{listed(left)} {verb} idle: no larger crew that cuts {training.batch} sequences into"
            f" equal shares takes less than {seconds(times[count])} per step."
        )
    return Crewed(hosts=hosts, seconds_per_step=times[count], reasons=tuple(reasons))


def _need_gb(fact: HostFacts, parameters: int) -> float:
    """At its peak; the exchange's vectors lie in main memory, so a GPU does not carry them."""
    return fact.peak_memory_gb + (0.0 if fact.gpus else VECTORS * 4 * parameters / 1e9)


def _step_s(facts: list[HostFacts], training: Training, parameters: int) -> float:
    """One optimizer step: the slowest share, then the gradients' all-reduce inside the site."""
    count = len(facts)
    compute = training.batch // count * training.sequence / min(f.tokens_per_s for f in facts)
    allreduce = 2 * (count - 1) / count * 4 * parameters * 8 / (LAN_MBIT * 1e6)
    return compute + allreduce


def _cut(fact: HostFacts, training: Training, count: int) -> HostPlan:
    share = training.batch // count
    largest = max(1, min(fact.micro_batch, share))
    micro = max(size for size in range(1, largest + 1) if share % size == 0)
    return HostPlan(
        host=fact.host,
        micro_batch=micro,
        accumulation=share // micro,
        tokens_per_s=fact.tokens_per_s,
    )


def _why(
    site: Site, hosts: tuple[HostPlan, ...], times: dict[int, float], training: Training
) -> str:
    first = hosts[0]
    cut = f"{first.accumulation} x {first.micro_batch} sequences a step"
    if len(hosts) == 1:
        return (
            f"{site.name} trains on {first.host}: {cut}, the largest micro-batch that was quick and"
            f" fits, {number(first.tokens_per_s)} tokens/s."
        )
    return (
        f"{site.name} trains on {listed(tuple(host.host for host in hosts))} together,"
        f" {training.batch // len(hosts)} of {training.batch} sequences each:"
        f" {seconds(times[len(hosts)])} per step instead of {seconds(times[1])} alone"
        f" (gradients over {LAN_MBIT:,.0f} Mbit/s, assumed)."
    )
