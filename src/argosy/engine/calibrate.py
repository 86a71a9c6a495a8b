"""A few seconds of the job's own model on this host: how quick it is, what it takes, how far away.

    python -m argosy.engine.calibrate worker.json --job job.yaml [--within 8]

All hosts are measured at once, as they will train: hosts that share a machine share its cores.
Prints one JSON line: {"event": "calibrated", "facts": {...HostFacts}, "parameters": n,
"link": {"rtt_ms", "up_mbit", "down_mbit"} or null}. A model that will not fit is not built: its
facts then say what it would need, and no speed; the planner refuses it in words.
"""

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from argosy.core.errors import HostError
from argosy.core.plan import HostFacts
from argosy.engine.config import Workplace, read_workplace
from argosy.engine.process import exit_code_of, say

if TYPE_CHECKING:
    import torch
    from torch import nn

    from argosy.core.job import Job, Training

WITHIN_S = 8.0
TRIAL_S = 0.3  # of timing per micro-batch, at least two passes
BETTER = 1.04  # what a larger micro-batch must gain to be worth its memory
TRYING = 0.7  # of the time may go into finding the micro-batch
AGAIN_S = 2.0  # of timing the best once more
USABLE = 0.9  # of the memory
PROBE_WITHIN_S = 20.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    facts: HostFacts
    parameters: int


def measure(job: "Job", place: Workplace, *, within_s: float = WITHIN_S) -> Measured:
    """Speed and memory of this host for this job."""
    import torch

    from argosy.engine import memory, models, tokens

    torch.set_num_threads(max(1, place.threads))
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    tokenizer = tokens.open_tokenizer(job.training.tokenizer, place.data)
    facts = HostFacts(
        host=place.host,
        tokens_per_s=0.0,
        micro_batch=1,
        peak_memory_gb=0.0,
        memory_gb=memory.available_gb(device),
        cores=max(1, place.threads),
        gpus=int(device.type == "cuda"),
        torch=torch.__version__,
    )
    with models.written_at(job.model_where), torch.device("meta"):
        shape = models.build(job.model, tokenizer.vocabulary, root=place.data, weights=False)
    parameters = models.size(shape)
    need = memory.predicted_gb(
        parameters,
        tokenizer.vocabulary,
        job.training,
        models.described(shape),
        memory.peak_gb(device),
    )
    if need > USABLE * facts.memory_gb:
        return Measured(facts=replace(facts, peak_memory_gb=need), parameters=parameters)
    with models.written_at(job.model_where):
        module = models.build(job.model, tokenizer.vocabulary, root=place.data, weights=False)
        models.check(module, tokenizer.vocabulary, job.training.sequence)
    trial = Trial(module.to(device), tokenizer.vocabulary, job.training, device)
    best = quickest(
        trial.run,
        sizes(job.training.batch),
        fits=lambda peak: peak <= USABLE * facts.memory_gb,
        within_s=within_s,
    )
    measured = replace(
        facts,
        tokens_per_s=best.tokens_per_s,
        micro_batch=best.micro_batch,
        peak_memory_gb=best.peak_gb,
    )
    return Measured(facts=measured, parameters=parameters)


@dataclass(frozen=True, kw_only=True, slots=True)
class Speed:
    micro_batch: int
    tokens_per_s: float
    peak_gb: float


def sizes(batch: int) -> list[int]:
    """1, 2, 4, ... and the batch itself."""
    return [size for exponent in range(batch.bit_length()) if (size := 1 << exponent) < batch] + [
        batch
    ]


def quickest(
    run: Callable[[int, float], Speed | None],
    candidates: list[int],
    *,
    fits: Callable[[float], bool],
    within_s: float,
    clock: Callable[[], float] = time.monotonic,
) -> Speed:
    """The smallest micro-batch about as quick as any, timed once more.

    One that gains nothing ends the search only together with the next: a pass may be unlucky when
    other hosts of this machine are measured at the same time.
    """
    start = clock()
    found: list[Speed] = []
    for size in candidates:
        if found and clock() - start > TRYING * within_s:
            break
        if len(found) >= 2 and not fits(2 * found[-1].peak_gb - found[-2].peak_gb):
            break
        speed = run(size, TRIAL_S)
        if speed is None or not fits(speed.peak_gb):
            break
        found.append(speed)
        if len(found) >= 3 and _leader(found) in found[:-2]:
            break
    if not found:
        raise HostError(
            "not even one sequence fits into the memory",
            hint="make the model or training.sequence smaller, or use a larger host",
        )
    best = _leader(found)
    left = min(AGAIN_S, within_s - (clock() - start))
    again = run(best.micro_batch, left) if left > TRIAL_S else None
    return replace(best, tokens_per_s=again.tokens_per_s) if again else best


def _leader(found: list[Speed]) -> Speed:
    best = found[0]
    for speed in found[1:]:
        if speed.tokens_per_s > BETTER * best.tokens_per_s:
            best = speed
    return best


class Trial:
    """Training steps on made-up tokens, with all the state that training keeps."""

    def __init__(
        self, module: "nn.Module", vocabulary: int, training: "Training", device: "torch.device"
    ) -> None:
        import torch

        self._module = module
        self._vocabulary = vocabulary
        self._training = training
        self._device = device
        self._parameters = [p for p in module.parameters() if p.requires_grad]
        self._optimizer = (
            torch.optim.SGD(self._parameters, lr=0.0)
            if training.optimizer == "sgd"
            else torch.optim.AdamW(self._parameters, lr=0.0, fused=True)
        )

    def run(self, micro_batch: int, seconds: float) -> Speed | None:
        """None when the GPU's memory does not suffice."""
        import torch

        from argosy.engine import memory

        step_s = 0.0
        shape = (micro_batch, self._training.sequence + 1)
        tokens = torch.randint(0, self._vocabulary, shape, device=self._device)
        try:
            for _ in range(2):  # warm-up: allocations, kernels, the optimizer's state
                self._pass(tokens)
                step_s = self._step()
            passes, start = 0, time.monotonic()
            while passes < 2 or time.monotonic() - start < seconds:
                self._pass(tokens)
                passes += 1
            self._wait()
        except torch.cuda.OutOfMemoryError:
            torch.cuda.empty_cache()
            return None
        pass_s = (time.monotonic() - start) / passes
        batch = self._training.batch
        step = pass_s * batch / micro_batch + step_s
        return Speed(
            micro_batch=micro_batch,
            tokens_per_s=batch * self._training.sequence / step,
            peak_gb=memory.peak_gb(self._device),
        )

    def _pass(self, tokens: "torch.Tensor") -> None:
        import torch

        from argosy.engine import models
        from argosy.engine.step import narrow

        enabled = narrow(self._training.precision, self._device)
        with torch.autocast(self._device.type, torch.bfloat16, enabled=enabled):
            loss = models.loss(self._module, tokens)
        loss.backward()  # type: ignore[no-untyped-call]

    def _step(self) -> float:
        import torch

        self._wait()
        start = time.monotonic()
        torch.nn.utils.clip_grad_norm_(self._parameters, 1.0)
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        self._wait()
        return time.monotonic() - start

    def _wait(self) -> None:
        import torch

        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)


def link(place: Workplace) -> dict[str, float]:
    """This host's way to the logbook, through whatever stands between."""
    from argosy.logbook.client import RemoteLogbook

    with RemoteLogbook(
        place.url, place.keys, within_s=PROBE_WITHIN_S, server_name=place.server_name
    ) as logbook:
        rtt_ms, up_mbit, down_mbit = logbook.probe()
    return {"rtt_ms": rtt_ms, "up_mbit": up_mbit, "down_mbit": down_mbit}


def main(arguments: list[str]) -> int:
    from argosy.spec import read_job

    parser = argparse.ArgumentParser(prog="python -m argosy.engine.calibrate")
    parser.add_argument("worker", type=Path, help="worker.json")
    parser.add_argument("--job", type=Path, required=True)
    parser.add_argument("--within", type=float, default=WITHIN_S, help="seconds of training")
    parser.add_argument("--no-link", action="store_true", help="do not measure the link")
    chosen = parser.parse_args(arguments)
    place = read_workplace(chosen.worker)
    measured = measure(read_job(chosen.job), place, within_s=chosen.within)
    say(
        event="calibrated",
        facts=asdict(measured.facts),
        parameters=measured.parameters,
        link=None if chosen.no_link else link(place),
    )
    return 0


if __name__ == "__main__":
    sys.exit(exit_code_of(main, sys.argv[1:]))
