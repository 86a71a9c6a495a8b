"""The way from a job to its plan: crews, agreement, estimate, limits."""

from argosy.core.errors import NoPlan
from argosy.core.fleet import Fleet, Link
from argosy.core.job import Job, StepWindow, TimeWindow
from argosy.core.plan import ExchangePlan, HostFacts, Plan, SitePlan
from argosy.planner.estimate import estimate, outside_limits
from argosy.planner.exchange import Agreement, agreement
from argosy.planner.facts import BLOCK
from argosy.planner.hosts import Trainer, crew
from argosy.planner.words import listed


def plan(  # noqa: PLR0913 - each is a fact from a different hand
    job: Job,
    fleet: Fleet,
    *,
    facts: tuple[HostFacts, ...],
    links: tuple[Link, ...],
    placement: dict[str, tuple[str, ...]],
    parameters: int,
    number: int = 1,
    reason: str = "",
) -> Plan:
    """Who trains what, how they agree, and what it will take. Raises NoPlan with the reasons.

    `facts` and `links` are measured (a link that was not is taken as the fleet declares it);
    `placement` says which sources each site may train on. A later plan may leave sources behind
    with the sites it lost; a first one may not.
    """
    trainers, reasons = _trainers(job, fleet, facts, links, placement, parameters)
    if reason:
        reasons.insert(0, f"Plan {number}: {reason}.")
    _refuse_orphans(placement, trainers, number, reasons)
    agreed = agreement(job, trainers, parameters)
    expected = estimate(job, fleet.currency, trainers, agreed, parameters)
    beyond = outside_limits(job, fleet.currency, expected)
    if beyond:
        raise NoPlan(
            " ".join(said for said, _ in beyond),
            where=job.limits.where or "job limits",
            hint=" ".join(relaxed for _, relaxed in beyond),
        )
    return Plan(
        number=number,
        sites=tuple(
            _site_plan(trainer, agreed, index, job) for index, trainer in enumerate(trainers)
        ),
        exchange=_exchange_plan(job, agreed),
        estimate=expected.estimate,
        parameters=parameters,
        reasons=(*reasons, *agreed.reasons, *expected.reasons),
    )


def _trainers(
    job: Job,
    fleet: Fleet,
    facts: tuple[HostFacts, ...],
    links: tuple[Link, ...],
    placement: dict[str, tuple[str, ...]],
    parameters: int,
) -> tuple[tuple[Trainer, ...], list[str]]:
    trainers, reasons = [], []
    for site in fleet.sites:
        sources = placement.get(site.name, ())
        if not sources:
            reasons.append(f"{site.name} stays idle: it may train on none of the sources.")
            continue
        found = crew(site, job.training, facts, parameters)
        reasons.extend(found.reasons)
        if not found.hosts:
            continue
        measured = next((link for link in links if link.a == site.name), None)
        step_tokens = job.training.batch * job.training.sequence
        trainers.append(
            Trainer(
                site=site,
                link=measured or fleet.link(site.name),
                sources=sources,
                hosts=found.hosts,
                seconds_per_step=found.seconds_per_step,
                tokens_per_s=step_tokens / found.seconds_per_step,
            )
        )
    if not trainers:
        raise NoPlan(
            "no site can train this job. " + " ".join(reasons),
            where="fleet",
            hint="a site needs a host with enough memory, and a source it may read",
        )
    return tuple(trainers), reasons


def _refuse_orphans(
    placement: dict[str, tuple[str, ...]],
    trainers: tuple[Trainer, ...],
    number: int,
    reasons: list[str],
) -> None:
    """A source that nobody would train is not dropped in silence."""
    trained = {source for trainer in trainers for source in trainer.sources}
    wanted = sorted({source for sources in placement.values() for source in sources})
    left = tuple(source for source in wanted if source not in trained)
    if not left:
        return
    where = tuple(sorted(site for site, sources in placement.items() if set(sources) & set(left)))
    said = f"{listed(left)}: no host of {listed(where)} can train, and no other site may read it."
    if number == 1:
        raise NoPlan(said + " " + " ".join(reasons), where="fleet", hint="mend those hosts first")
    reasons.append(f"Left behind: {said}")


def _site_plan(trainer: Trainer, agreed: Agreement, index: int, job: Job) -> SitePlan:
    trip = agreed.traffic[index]
    match agreed.window:
        case StepWindow(steps=window) if job.exchange.delay == 0:
            steps = float(window)
        case _:
            steps = agreed.train_s / trainer.seconds_per_step
    return SitePlan(
        site=trainer.site.name,
        hosts=trainer.hosts,
        sources=trainer.sources,
        tokens_per_s=trainer.tokens_per_s,
        seconds_per_step=trainer.seconds_per_step,
        steps_per_round=steps,
        bytes_per_round=trip.up + trip.down,
        transfer_s=trip.up_s + trip.down_s,
    )


def _exchange_plan(job: Job, agreed: Agreement) -> ExchangePlan:
    window = agreed.window
    return ExchangePlan(
        codec=agreed.codec,
        block=BLOCK,
        window_steps=window.steps if isinstance(window, StepWindow) else None,
        window_seconds=window.seconds if isinstance(window, TimeWindow) else None,
        delay=job.exchange.delay,
        outer_learning_rate=job.exchange.outer_learning_rate,
        outer_momentum=job.exchange.outer_momentum,
        moments=job.exchange.moments,
        staleness=job.exchange.staleness,
        checkpoint_every=job.exchange.checkpoint_every,
        evaluate_every=job.training.evaluate_every,
    )
