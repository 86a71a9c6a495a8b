"""A real update to measure codecs on: `python benchmarks/real_update.py FILE.npy [--after 120]`.

Trains the example's model on its German text and keeps what a site would post after one window
of 30 steps, before it is encoded (fp32, one vector).
"""

import argparse
from pathlib import Path

import numpy as np
import torch

from argosy.core.job import Training
from argosy.data.corpus import open_source, training
from argosy.data.order import Cursor
from argosy.data.tokens import BYTES
from argosy.engine import models
from argosy.engine.optimizer import InnerOptimizer, clip, norm_of
from argosy.engine.weights import Weights
from argosy.spec import read_job

EXAMPLE = Path(__file__).parents[1] / "examples" / "three-continents"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--after", type=int, default=0, help="steps before the window begins")
    parser.add_argument("--window", type=int, default=30, help="steps")
    asked = parser.parse_args()
    np.save(asked.file, update(asked.after, asked.window))


def update(after: int, window: int) -> np.ndarray:
    """The difference a - l of one window, on one thread."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    job = read_job(EXAMPLE / "job.yaml")
    source = job.source("german")
    corpus = open_source(source, EXAMPLE, site_country=source.country, policy=job.policy)
    order = training([corpus.tokens(BYTES, None)], sequence=job.training.sequence, seed=0)
    weights = Weights(
        models.build(job.model, BYTES.vocabulary, root=EXAMPLE).train(), torch.device("cpu")
    )
    optimizer = InnerOptimizer(weights, job.training)
    agreed, cursor = weights.read().copy(), Cursor()
    for step in range(after + window):
        if step == after:
            agreed = weights.read().copy()
        batch, cursor = order.batch(cursor, job.training.batch)
        optimizer.clear()
        models.loss(weights.module, torch.from_numpy(batch)).backward()  # type: ignore[no-untyped-call]
        clip(weights, float(norm_of(weights)), job.training.clip_norm or float("inf"))
        optimizer.step(3 * step * _tokens(job.training), _tokens(job.training))
    difference: np.ndarray = agreed - weights.read()
    return difference


def _tokens(asked: Training) -> int:
    return asked.batch * asked.sequence


if __name__ == "__main__":
    main()
