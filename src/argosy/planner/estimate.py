"""What a plan will take: rounds, time, bytes and money, and how far that is outside the limits."""

import math
from dataclasses import dataclass

from argosy.core.job import Job, StepWindow
from argosy.core.plan import Estimate
from argosy.core.units import money
from argosy.planner.exchange import Agreement
from argosy.planner.facts import START_S
from argosy.planner.hosts import Trainer
from argosy.planner.words import number, seconds, size


@dataclass(frozen=True, kw_only=True, slots=True)
class Expected:
    """The estimate, and the parts of it that do not shrink with the number of tokens."""

    estimate: Estimate
    fixed_s: float
    fixed_money: float
    reasons: tuple[str, ...]


def estimate(
    job: Job, currency: str, trainers: tuple[Trainer, ...], agreed: Agreement, parameters: int
) -> Expected:
    count = len(trainers)
    per_round = sum(_round_tokens(trainer, agreed, job) for trainer in trainers)
    rounds = max(1, math.ceil(job.training.tokens / per_round))
    speed = per_round / agreed.round_s
    initial = 8 * parameters  # model and velocity in fp32, fetched once by every site
    slowest = min(trainer.link.mbit_per_s for trainer in trainers)
    transfer = max(trip.up_s for trip in agreed.traffic) + max(
        trip.down_s for trip in agreed.traffic
    )
    fixed_s = START_S + initial * 8e-6 / slowest + transfer
    total_s = fixed_s + job.training.tokens / speed
    up = rounds * sum(trip.up for trip in agreed.traffic)
    down = rounds * sum(trip.down for trip in agreed.traffic)
    hourly = sum(trainer.price_per_hour for trainer in trainers)
    fixed_money = hourly * fixed_s / 3600 + sum(
        initial / 1e9 * trainer.link.price_per_gb for trainer in trainers
    )
    traffic_money = rounds * sum(
        (trip.up + trip.down) / 1e9 * trainer.link.price_per_gb
        for trainer, trip in zip(trainers, agreed.traffic, strict=True)
    )
    total_money = fixed_money + hourly * (total_s - fixed_s) / 3600 + traffic_money
    allreduce = _allreduce_bytes(job, count, parameters)
    found = Estimate(
        tokens_per_s=speed,
        rounds=rounds,
        seconds=total_s,
        money=total_money,
        currency=currency,
        bytes_up=up,
        bytes_down=down,
        allreduce_bytes=allreduce,
    )
    return Expected(
        estimate=found,
        fixed_s=fixed_s,
        fixed_money=fixed_money,
        reasons=_reasons(job, found, initial, count),
    )


def outside_limits(job: Job, currency: str, expected: Expected) -> list[tuple[str, str]]:
    """What the plan would overstep, each with the smallest relaxation that would let it pass."""
    limits, found = job.limits, expected.estimate
    beyond = []
    if limits.hours is not None and found.seconds > limits.hours * 3600:
        hours = math.ceil(found.seconds / 36) / 100
        share = (limits.hours * 3600 - expected.fixed_s) / (found.seconds - expected.fixed_s)
        beyond.append(
            (
                (
                    f"The job takes {seconds(found.seconds)} on this fleet, at most"
                    f" {number(limits.hours)} h are allowed."
                ),
                f"Allow limits.hours: {hours:.2f}{_or_fewer_tokens(job, share)}.",
            )
        )
    if limits.money is None:
        return beyond
    if limits.currency not in (None, currency):
        beyond.append(
            (
                f"limits.money is in {limits.currency}, the fleet's prices are in {currency}.",
                f"Write the limit in {currency}.",
            )
        )
    elif found.money > limits.money:
        enough = math.ceil(found.money * 100) / 100
        share = (limits.money - expected.fixed_money) / (found.money - expected.fixed_money)
        beyond.append(
            (
                (
                    f"The job costs {money(found.money, currency)} on this fleet, at most"
                    f" {money(limits.money)} are allowed."
                ),
                f"Allow limits.money: {money(enough)}{_or_fewer_tokens(job, share)}.",
            )
        )
    return beyond


def _or_fewer_tokens(job: Job, share: float) -> str:
    tokens = int(share * job.training.tokens)
    return f", or about {tokens:,} training.tokens" if tokens > 0 else ""


def _round_tokens(trainer: Trainer, agreed: Agreement, job: Job) -> float:
    match agreed.window:
        case StepWindow(steps=steps) if job.exchange.delay == 0:
            return steps * job.training.batch * job.training.sequence
        case _:
            return trainer.tokens_per_s * agreed.train_s


def _allreduce_bytes(job: Job, count: int, parameters: int) -> int:
    """A ring all-reduce of fp32 gradients every step: up plus down, all sites, the whole run."""
    steps = job.training.tokens / (count * job.training.batch * job.training.sequence)
    return round(steps * count * 2 * (2 * (count - 1) / count * 4 * parameters))


def _reasons(job: Job, found: Estimate, initial: int, count: int) -> tuple[str, ...]:
    moved = found.bytes_up + found.bytes_down
    fewer = (
        f", {found.allreduce_bytes / moved:,.0f} times less than the {size(found.allreduce_bytes)}"
        " of an all-reduce every step"
        if found.allreduce_bytes > moved
        else ""
    )
    return (
        (
            f"{number(job.training.tokens)} tokens at {number(found.tokens_per_s)} tokens/s are"
            f" {number(found.rounds)} rounds and {seconds(found.seconds)}, start-up and the last"
            " exchange included."
        ),
        (
            f"{size(moved)} cross the links in all{fewer}; the initial model, {size(initial)} to each"
            f" of {count} sites, comes apart."
        ),
        f"The hosts and the traffic cost {money(found.money, found.currency)}."
        if found.money
        else "Neither hosts nor links have a price in the fleet file.",
        (
            f"A contribution counts within {job.exchange.staleness} rounds, and a site that hears"
            f" nothing trains {job.exchange.staleness} windows alone before it waits."
        ),
    )
