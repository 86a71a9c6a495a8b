"""Rule 11: delay 0, fp32, windows of one step, outer rate 1, no momentum, SGD inside, one global
batch split over the sites: the run is plain data-parallel SGD, within the rounding of floats."""

from typing import TYPE_CHECKING

import numpy as np
from fakes.exchange import LEADER, Log, commit, contribution, plan, writer
from numpy.typing import NDArray

from argosy.core.records import Lead, Member, Planned
from argosy.exchange.codec import decode
from argosy.exchange.holdings import Holdings
from argosy.exchange.outer import combine_payloads
from argosy.exchange.site import SiteSide

if TYPE_CHECKING:
    from argosy.exchange.vectors import Vector

SITES = {"berlin": 8, "lima": 4, "osaka": 4}  # sequences of the global batch that each site takes
SIZE, STEPS, RATE = 20, 50, 0.05


def gradient(at: NDArray[np.float64], rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of the mean over rows of (row . at - 1)^2 / 2."""
    mean: NDArray[np.float64] = rows.T @ (rows @ at - 1) / len(rows)
    return mean


def test_with_nothing_lost_delayed_or_weighed_the_run_is_data_parallel_sgd() -> None:
    chance = np.random.default_rng(0)
    batches = chance.standard_normal((STEPS, sum(SITES.values()), SIZE)) / 2
    begin = chance.standard_normal(SIZE).astype(np.float32)
    cuts = np.cumsum([0, *SITES.values()])
    shares = {site: slice(cuts[i], cuts[i + 1]) for i, site in enumerate(SITES)}
    log = Log()
    log.append(LEADER, Lead(term=1))
    log.append(
        LEADER,
        Planned(
            plan=plan(*SITES, delay=0, window_steps=1, outer_learning_rate=1.0, outer_momentum=0.0),
            reason="anchor",
        ),
    )
    sides = {site: SiteSide(site) for site in SITES}
    held = {site: Holdings(begin) for site in SITES}
    local: dict[str, Vector] = {site: begin.copy() for site in SITES}
    alone = begin.astype(np.float64)

    def heard() -> None:
        for entry in log.entries:
            for side in sides.values():
                side.hear(entry)

    heard()
    for round, batch in enumerate(batches, 1):
        payloads: dict[str, bytes | None] = {}
        for site, side in sides.items():
            assert side.may_train(0)
            step = RATE * gradient(local[site].astype(np.float64), batch[shares[site]])
            local[site] -= step.astype(np.float32)
            payloads[site] = held[site].post(local[site], "fp32")
            tokens = 128 * SITES[site]
            post = contribution(round, round - 1, tokens=tokens, steps=1, trained=0)
            side.posted(post)
            log.append(writer(site), post)
        heard()
        assert not any(side.may_train(0) for side in sides.values())
        members = tuple(
            Member(site=site, n=round, tokens=128 * share, steps=1) for site, share in SITES.items()
        )
        log.append(LEADER, commit(round, members=members, tokens=round * 128 * 16))
        heard()
        for site, side in sides.items():
            apply = side.next()
            assert apply is not None
            assert apply.named
            mean = combine_payloads(apply.commit, payloads, SIZE)
            held[site].apply(local[site], mean, 1.0, 0.0, named=True)
            side.applied(apply)
        alone -= RATE * gradient(alone, batch)

    models = {site: local[site].tobytes() for site in SITES}
    assert len(set(models.values())) == 1
    assert np.abs(local["berlin"] - alone).max() < 1e-5
    assert np.abs(alone - begin).max() > 0.1, "it has trained at all"


def test_fp32_says_the_difference_as_it_is() -> None:
    held = Holdings(np.ones(3, dtype=np.float32))

    payload = held.post(np.zeros(3, dtype=np.float32), "fp32")

    assert decode(payload).tolist() == [1, 1, 1]
    assert held.e_pending is not None
    assert not held.e_pending.any()
