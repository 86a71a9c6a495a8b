"""How fast and how small the codecs are, on one core: `python benchmarks/codecs.py`.

`--update FILE.npy` measures on a real update (an fp32 vector: what a site had posted before it
was encoded). Without it the update is made up, and said to be.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from argosy.exchange.codec import BLOCK, CODECS, decode, encode
from argosy.exchange.vectors import Vector

MADE_UP = "made up: Student's t with 5 degrees of freedom, each row of 512 scaled by its own factor"


def main() -> None:
    asked = _arguments()
    update, source = _update(asked.update, asked.values)
    figures = {codec: _measured(update, codec, asked.repeat) for codec in CODECS}
    _show(figures, update.size, source)
    if asked.json:
        print(json.dumps({"update": source, "values": update.size, "block": BLOCK} | figures))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--update", type=Path, metavar="FILE.npy", help="a real update")
    parser.add_argument("--values", type=int, default=10_000_000, help="of a made-up one")
    parser.add_argument("--repeat", type=int, default=5, help="the quickest run counts")
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    return parser.parse_args()


def _update(path: Path | None, values: int) -> tuple[Vector, str]:
    if path is not None:
        return np.load(path).astype(np.float32).ravel(), str(path)
    chance = np.random.default_rng(0)
    rows = np.exp(chance.standard_normal(-(-values // 512))) * 1e-4
    update = chance.standard_t(5, values) * np.repeat(rows, 512)[:values]
    return update.astype(np.float32), MADE_UP


def _measured(update: Vector, codec: str, repeat: int) -> dict[str, float]:
    encoded = encode(update, codec)
    decoded = decode(encoded)
    lost = np.linalg.norm((decoded - update).astype(np.float64))
    return {
        "encode_m_per_s": round(_speed(lambda: encode(update, codec), update.size, repeat), 1),
        "decode_m_per_s": round(_speed(lambda: decode(encoded), update.size, repeat), 1),
        "bits_per_parameter": round(8 * len(encoded) / update.size, 4),
        "lost": round(float(lost / np.linalg.norm(update.astype(np.float64))), 4),
    }


def _speed(work: Callable[[], object], values: int, repeat: int) -> float:
    """Million values per second of processor time: none of the codecs uses a second core."""
    seconds = []
    for _ in range(repeat):
        begin = time.process_time()
        work()
        seconds.append(time.process_time() - begin)
    return values / min(seconds) / 1e6


def _show(figures: dict[str, dict[str, float]], values: int, source: str) -> None:
    print(f"{values:,} values, blocks of {BLOCK}; {source}")
    print(f"{'codec':8} {'encode':>9} {'decode':>9} {'bits per':>10} {'lost, left to':>14}")
    print(f"{'':8} {'M/s/core':>9} {'M/s/core':>9} {'parameter':>10} {'the residual':>14}")
    for codec, told in figures.items():
        print(
            f"{codec:8} {told['encode_m_per_s']:9.0f} {told['decode_m_per_s']:9.0f}"
            f" {told['bits_per_parameter']:10.3f} {told['lost']:13.1%}"
        )


if __name__ == "__main__":
    main()
