"""One model, the same tokens, three languages: three sites that exchange a bit per parameter
against synchronous training on all data at one place.

    python benchmarks/parity.py [--json] [--rate 0.0005 0.001 0.003] [--seeds 1] [--steps 1200] [--codec ternary]

The three sites run the engine's own worker, loop and exchange, the real controller's side, signed
records and the embedded logbook, all in one process; only the network is left out. A commit is held
back by `--lag` steps, as a link would. The last line is one JSON object: loss_sync, loss_argosy,
loss_ratio, bytes_ratio, and what they were made of.

Bytes are up plus down per site, blobs and records as they lie in the logbook, and HTTP and TLS
around each as the lab's relay has counted it; a checkpoint costs a site nothing (it is written
beside the logbook), the initial model is told apart. The baseline is a ring all-reduce of fp32
gradients every step. With several rates the figures are those of the first, and loss_ratio_best
compares each side at its own best of them.
"""

import argparse
import json
import math
import multiprocessing
import os
import time
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
from parity_sites import SITES, Outcome, Trial, initial, losses, opened, say, three_sites


def synchronous(trial: Trial) -> Outcome:
    """Every step takes the batches that the three sites would take, and updates one model."""
    import torch

    from argosy.data.corpus import training
    from argosy.data.order import Cursor
    from argosy.engine import models
    from argosy.engine.optimizer import InnerOptimizer, clip, norm_of
    from argosy.engine.weights import Weights
    from argosy.spec import parse_job

    torch.set_num_threads(1)
    began = time.monotonic()
    job = parse_job(trial.job)
    weights = Weights(initial(job).train(), torch.device("cpu"))
    optimizer = InnerOptimizer(weights, job.training)
    orders = [
        training([tokens], sequence=job.training.sequence, seed=job.training.seed)
        for tokens in opened(job).values()
    ]
    cursors = [Cursor()] * len(orders)
    step_tokens = len(SITES) * job.training.batch * job.training.sequence
    for step in range(trial.steps):
        rows = []
        for index, order in enumerate(orders):
            batch, cursors[index] = order.batch(cursors[index], job.training.batch)
            rows.append(torch.from_numpy(batch))
        optimizer.clear()
        for piece in rows:  # micro-batches: the mean over all is the mean of their means
            (models.loss(weights.module, piece) / len(rows)).backward()  # type: ignore[no-untyped-call]
        norm = float(norm_of(weights))
        assert math.isfinite(norm)
        clip(weights, norm, 1.0)
        optimizer.step(step * step_tokens, step_tokens)
        if (step + 1) % 300 == 0:
            say(
                f"  one place, seed {trial.seed}: {step + 1} steps, {time.monotonic() - began:.0f} s"
            )
    return Outcome(
        losses=losses(weights.module, job),
        seconds=time.monotonic() - began,
        parameters=weights.vector.numel(),
    )


def allreduce_bytes(trial: Trial, parameters: int) -> float:
    """Of one site, up plus down: a ring over the sites, fp32 gradients, every step."""
    sites = len(SITES)
    return trial.steps * 2 * (2 * (sites - 1) / sites) * 4 * parameters


def main() -> None:
    chosen = _parser().parse_args()
    began = time.monotonic()
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(chosen.processes, mp_context=spawn) as pool:
        asked = [
            (
                [pool.submit(three_sites, trial) for trial in trials],
                [pool.submit(synchronous, trial) for trial in trials],
            )
            for rate in chosen.rate
            if (trials := [_trial(chosen, rate, seed) for seed in range(chosen.seeds)])
        ]
        found = [
            _figures(
                chosen,
                rate,
                [outcome.result() for outcome in ours],
                [outcome.result() for outcome in theirs],
            )
            for rate, (ours, theirs) in zip(chosen.rate, asked, strict=True)
        ]
    first = found[0] | {"seconds": time.monotonic() - began, "by_rate": found}
    for figures in found:
        print(_table(figures))
    if len(found) > 1:
        sync, argosy = (
            min(found, key=lambda figures: figures[side]) for side in ("loss_sync", "loss_argosy")
        )
        first["loss_ratio_best"] = argosy["loss_argosy"] / sync["loss_sync"]
        print(
            f"each at the best of these rates: {sync['loss_sync']:.4f} ({sync['rate']:g}),"
            f" {argosy['loss_argosy']:.4f} ({argosy['rate']:g}),"
            f" ratio {first['loss_ratio_best']:.4f}"
        )
    if chosen.json:
        print(json.dumps(first))


def _figures(
    chosen: argparse.Namespace, rate: float, argosy: list[Outcome], sync: list[Outcome]
) -> dict[str, Any]:
    loss_sync = float(np.mean([outcome.loss for outcome in sync]))
    loss_argosy = float(np.mean([outcome.loss for outcome in argosy]))
    baseline = allreduce_bytes(_trial(chosen, rate, 0), argosy[0].parameters)
    site_bytes = float(np.mean([outcome.site_bytes for outcome in argosy]))
    return {
        "rate": rate,
        "loss_sync": loss_sync,
        "loss_argosy": loss_argosy,
        "loss_ratio": loss_argosy / loss_sync,
        "bytes_ratio": baseline / site_bytes,
        "bytes_per_site": round(site_bytes),
        "bytes_per_site_allreduce": round(baseline),
        "initial_model_bytes": 8 * argosy[0].parameters,
        "bits_per_parameter": float(np.mean([outcome.payload_bits for outcome in argosy])),
        "parameters": argosy[0].parameters,
        "rounds": argosy[0].rounds,
        "steps": chosen.steps,
        "codec": chosen.codec,
        "window": chosen.window,
        "lag": chosen.lag,
        "losses_sync": [outcome.losses for outcome in sync],
        "losses_argosy": [outcome.losses for outcome in argosy],
    }


def _table(figures: dict[str, Any]) -> str:
    lines = [f"{'held-out loss, nats per byte':32}{'one place':>12}{'three sites':>12}"]
    pairs = zip(figures["losses_sync"], figures["losses_argosy"], strict=True)
    for seed, (one, three) in enumerate(pairs):
        for name, loss in one.items():
            lines.append(f"  seed {seed}, {name:22}{loss:12.4f}{three[name]:12.4f}")
    lines.append(
        f"{'mean, learning rate ' + format(figures['rate'], 'g'):32}{figures['loss_sync']:12.4f}"
        f"{figures['loss_argosy']:12.4f}   ratio {figures['loss_ratio']:.4f}"
    )
    lines.append(
        f"{'MB up and down, per site':32}{figures['bytes_per_site_allreduce'] / 1e6:12.1f}"
        f"{figures['bytes_per_site'] / 1e6:12.1f}   {figures['bytes_ratio']:.0f} times fewer"
    )
    lines.append(
        f"{figures['parameters']:,} parameters, {figures['steps']} steps, {figures['rounds']} rounds,"
        f" {figures['codec']} at {figures['bits_per_parameter']:.2f} bits per parameter\n"
    )
    return "\n".join(lines)


def _trial(chosen: argparse.Namespace, rate: float, seed: int) -> Trial:
    names = (
        "steps", "batch", "width", "layers", "window", "codec", "delay", "lag",
        "outer_rate", "momentum", "moments",
    )  # fmt: skip
    return Trial(seed=seed, rate=rate, **{name: getattr(chosen, name) for name in names})


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0] if __doc__ else "")
    parser.add_argument("--json", action="store_true", help="the figures, as the last line")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--batch", type=int, default=8, help="sequences per step and site")
    parser.add_argument("--width", type=int, default=80)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument(
        "--rate", type=float, nargs="+", default=[5e-4, 1e-3, 3e-3],
        help="learning rates; both sides train with each, the figures are those of the first",
    )  # fmt: skip
    parser.add_argument("--window", type=int, default=30, help="steps")
    parser.add_argument("--codec", default="ternary")
    parser.add_argument("--delay", type=int, default=1)
    parser.add_argument("--lag", type=int, default=10, help="steps until a commit comes")
    parser.add_argument("--outer-rate", type=float, default=0.8)
    parser.add_argument("--momentum", type=float, default=0.8)
    parser.add_argument("--moments", choices=["shared", "own"], default="shared")
    parser.add_argument("--processes", type=int, default=min(2, os.cpu_count() or 1))
    return parser


if __name__ == "__main__":
    main()
