"""How much memory a host has to give, how much this process took, and what a model will take."""

import json
import resource
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from argosy.core.job import Training

GB = 1e9
STATE_BYTES = 16  # per parameter: weight, gradient and AdamW's two moments, in fp32
LOGITS = 3  # fp32 copies: the logits, their log-softmax, its gradient
PER_LAYER = 20  # activations kept per layer and token, in units of the hidden size
CGROUPS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
MEMINFO = Path("/proc/meminfo")
STATUS = Path("/proc/self/status")


def available_gb(device: torch.device) -> float:
    """What this process could grow to: free memory and what it has already."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return (free + torch.cuda.memory_reserved(device)) / GB
    free_kb = _field(MEMINFO, "MemAvailable")
    if free_kb is None:  # not Linux
        return _physical() / GB
    own = (_field(STATUS, "VmRSS") or 0) * 1024
    return min([free_kb * 1024 + own, *_limits()]) / GB


def peak_gb(device: torch.device) -> float:
    """The most this process has held so far."""
    if device.type == "cuda":
        return torch.cuda.max_memory_reserved(device) / GB
    # ru_maxrss of a child begins at its parent's size (exec keeps it); VmHWM does not.
    high_kb = _field(STATUS, "VmHWM")
    if high_kb is not None:
        return high_kb * 1024 / GB
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / GB


def predicted_gb(
    parameters: int, vocabulary: int, training: "Training", described: str, base_gb: float
) -> float:
    """What training will hold with a micro-batch of one, on top of what the process holds now."""
    config = json.loads(described) if described else {}
    width = config.get("hidden_size") or config.get("n_embd") or 0
    layers = config.get("num_hidden_layers") or config.get("n_layer") or 0
    per_token = LOGITS * vocabulary + PER_LAYER * width * layers
    return base_gb + (STATE_BYTES * parameters + 4 * training.sequence * per_token) / GB


def _limits() -> list[float]:
    """A container's own bounds, where it has any."""
    found = []
    for path in CGROUPS:
        try:
            found.append(float(path.read_text(encoding="ascii")))
        except (OSError, ValueError):  # "max", or no such group
            continue
    return found


def _field(path: Path, name: str) -> int | None:
    """A number of kB in a /proc file."""
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{name}:")), None)


def _physical() -> float:
    import os

    return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
