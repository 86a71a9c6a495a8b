"""How the sites agree: the window and the codec, so that transfer hides behind compute."""

import math
from dataclasses import dataclass

from argosy.core.job import Job, StepWindow, TimeWindow
from argosy.planner.facts import (
    BITS,
    CODECS,
    DOWN_TRIPS,
    HIDES,
    LEAST_ROUNDS,
    LEAST_SECONDS,
    MOST_STEPS,
    RECORD_BYTES,
    SPARE,
    STEPS,
    TERNARY_COST,
    TRAFFIC_SHARE,
    UP_TRIPS,
)
from argosy.planner.hosts import Trainer
from argosy.planner.words import number, seconds, size


@dataclass(frozen=True, kw_only=True, slots=True)
class Traffic:
    """One round of one site over its link."""

    up: int  # bytes
    down: int
    up_s: float
    down_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Agreement:
    """Codec and window, and what a round then is."""

    codec: str
    window: StepWindow | TimeWindow
    round_s: float  # from commit to commit
    train_s: float  # of it spent training: less than all only where sites wait (delay 0)
    traffic: tuple[Traffic, ...]  # per trainer
    reasons: tuple[str, ...]


def payload_bytes(codec: str, parameters: int) -> int:
    return round(BITS[codec] * parameters / 8)


def traffic(trainers: tuple[Trainer, ...], codec: str, parameters: int) -> tuple[Traffic, ...]:
    """Up: my payload and records. Down: everybody's records, and the payloads of the others."""
    payload, others = payload_bytes(codec, parameters), len(trainers) - 1
    up, down = payload + RECORD_BYTES, others * payload + len(trainers) * RECORD_BYTES
    return tuple(
        Traffic(
            up=up,
            down=down,
            up_s=up * 8e-6 / trainer.link.mbit_per_s + UP_TRIPS * _trip_s(trainer),
            down_s=down * 8e-6 / trainer.link.mbit_per_s + DOWN_TRIPS * _trip_s(trainer),
        )
        for trainer in trainers
    )


def agreement(job: Job, trainers: tuple[Trainer, ...], parameters: int) -> Agreement:
    """What the job asks for stands; what it leaves open is chosen here."""
    asked = job.exchange
    period, reasons = _first_window(job, trainers)
    if asked.codec is None:
        codec, why = _codec(trainers, parameters, period)
    else:
        codec, why = asked.codec, f"The codec is {asked.codec} because the job asks for it."
    reasons.append(why)
    trips = traffic(trainers, codec, parameters)
    transfer = _transfer_s(trips)
    if asked.window is None and transfer > HIDES * period:
        most = max(period, MOST_STEPS * _mean_step(trainers))
        period = min(most, _rounded(transfer / HIDES))
        reasons.append(
            f"The window grows to {seconds(period)} so that {seconds(transfer)} of transfer has"
            f" room ({number(MOST_STEPS)} steps at most)."
        )
    reasons.append(_hidden(transfer, period, job.exchange.delay))
    longer = max(period, transfer)
    return Agreement(
        codec=codec,
        window=asked.window or TimeWindow(seconds=period),
        round_s=longer if asked.delay else period + transfer,
        train_s=longer if asked.delay else period,
        traffic=trips,
        reasons=tuple(reasons),
    )


def _first_window(job: Job, trainers: tuple[Trainer, ...]) -> tuple[float, list[str]]:
    """The seconds between two posts, before transfer has a say."""
    match job.exchange.window:
        case StepWindow(steps=steps):
            period = steps * max(trainer.seconds_per_step for trainer in trainers)
            return period, [
                (
                    f"A window is {steps} steps because the job asks for it:"
                    f" {seconds(period)} at the slowest site."
                )
            ]
        case TimeWindow(seconds=period):
            return period, [
                (
                    f"A window is {seconds(period)} because the job asks for it, about"
                    f" {number(period / _mean_step(trainers))} steps."
                )
            ]
        case _:
            step = _mean_step(trainers)
            speed = sum(trainer.tokens_per_s for trainer in trainers)
            longest = max(1.0, job.training.tokens / speed / LEAST_ROUNDS)
            period = _rounded(min(max(LEAST_SECONDS, STEPS * step), longest))
            return period, [
                (
                    f"A window is {seconds(period)}, about {number(period / step)} steps of"
                    f" {seconds(step)} (the exchange was measured at {STEPS}); in seconds, so that unequal"
                    f" sites finish together, and short enough for {LEAST_ROUNDS} rounds."
                )
            ]


def _codec(trainers: tuple[Trainer, ...], parameters: int, period: float) -> tuple[str, str]:
    """The most exact that is as good as free; else the smallest, which loses little."""
    hosts = sum(trainer.price_per_hour for trainer in trainers) * period / 3600
    for codec in CODECS[:-1]:
        trips = traffic(trainers, codec, parameters)
        transfer = _transfer_s(trips)
        if transfer <= SPARE * period and _money(trainers, trips) <= TRAFFIC_SHARE * hosts:
            return codec, (
                f"The codec is {codec}, the most exact whose transfer ({seconds(transfer)}) takes"
                f" at most {SPARE:.0%} of a window and {TRAFFIC_SHARE:.0%} of the hosts' price."
            )
    smallest = CODECS[-1]
    payload = payload_bytes(smallest, parameters)
    larger = traffic(trainers, CODECS[-2], parameters)
    return smallest, (
        f"The codec is {smallest}: {size(payload)} per site and round at {BITS[smallest]} bits per"
        f" parameter; it cost {TERNARY_COST:.1%} of loss in a measurement, and {CODECS[-2]} would take"
        f" {seconds(_transfer_s(larger))} of {seconds(period)}"
        + (" and cost traffic." if _money(trainers, larger) else ".")
    )


def _hidden(transfer: float, period: float, delay: int) -> str:
    if delay == 0:
        return f"With delay 0 every site waits {seconds(transfer)} for each commit."
    if transfer <= HIDES * period:
        return (
            f"Transfer takes {seconds(transfer)} (up, then down, with"
            f" {UP_TRIPS + DOWN_TRIPS} round trips): {transfer / period:.0%} of a window, hidden"
            " behind compute."
        )
    if transfer <= period:
        return (
            f"Transfer takes {seconds(transfer)}, {transfer / period:.0%} of a window: it hides,"
            " but a slow moment of the link will show as a late round."
        )
    return (
        f"Transfer takes {seconds(transfer)}, longer than a window of {seconds(period)}: it does"
        " not hide. Sites train on meanwhile, and rounds are as long as the transfer."
    )


def _transfer_s(trips: tuple[Traffic, ...]) -> float:
    """The last site's post makes the commit; then the slowest site must have read it."""
    return max(trip.up_s for trip in trips) + max(trip.down_s for trip in trips)


def _money(trainers: tuple[Trainer, ...], trips: tuple[Traffic, ...]) -> float:
    pairs = zip(trainers, trips, strict=True)
    return sum((trip.up + trip.down) / 1e9 * trainer.link.price_per_gb for trainer, trip in pairs)


def _trip_s(trainer: Trainer) -> float:
    return (trainer.link.rtt_ms + trainer.link.jitter_ms) / 1000


def _mean_step(trainers: tuple[Trainer, ...]) -> float:
    """Of all sites' steps in a while, not of the sites: quick ones take more."""
    return len(trainers) / sum(1 / trainer.seconds_per_step for trainer in trainers)


def _rounded(period: float) -> float:
    """Up to a tenth of a second: a setting a person can read."""
    return math.ceil(period * 10 - 1e-9) / 10
