"""Measured rows as the cost model's nouns. What a table leaves open is guessed here, visibly."""

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from argosy.catalog.accelerators import Accelerator, accelerator
from argosy.catalog.networks import network as known
from argosy.core.network import Network, of_size
from argosy.planner.cost.cluster import Cluster
from argosy.planner.cost.forecast import Setup
from argosy.planner.cost.layout import Layout, Recompute, Shard

Row = Mapping[str, str]
Key = tuple[str, str, str, str]
GATED = ("llama", "qwen", "mixtral", "mistral", "deepseek", "gemma", "phi-3", "swiglu")
MEAN_OF_ALPACA = 128  # tokens, with the prompt's template
# GB/s that leave a host where the table does not say: by architecture and card of the host
NETWORK_GB_S = {"Turing": 3.0, "Volta": 6.0, "Ampere": 12.0, "Hopper": 40.0}


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """One row: what ran, where, and what was seen."""

    row_id: str
    key: Key
    row: Row
    timed: Setup
    told: bool  # whether the attention kernel is
    # The same but for what the peak saw: the longest sample, the driver's part. Of T5's 24 layers
    # the decoder's 12 read a quarter as many tokens: launched as often, but kept as 3 are.
    weighed: Setup
    seconds: float | None
    peak_gib: float | None
    fits: bool | None


def read(path: Path) -> list[Measured]:
    """All rows, in the order of their ids as text."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return sorted((measured(row) for row in rows), key=lambda one: one.row_id)


def measured(row: Row) -> Measured:
    net = network_of(row)
    layout = layout_of(row, net)
    timed = Setup(
        network=net,
        layout=replace(layout, sequence=MEAN_OF_ALPACA)
        if "average is much shorter" in row["notes"]
        else layout,
        cluster=cluster_of(row),
        place=_place(row),
    )
    weighed = replace(
        timed,
        network=replace(net, layers=15, cross_layers=3) if row["arch"] == "t5" else net,
        layout=layout,
        whole_card="allocated" not in row["mem_def"],
        last_stage="last logging rank" in row["mem_def"],
    )
    return Measured(
        row_id=row["row_id"],
        key=(row["source"], row["gpu"], row["gpus_per_node"], row["framework"]),
        row=row,
        timed=timed,
        told=bool(row["flash_attn"]) or "_te" not in row["model"] or timed.layout.context > 1,
        weighed=weighed,
        seconds=_number(row["step_time_s"]) or None,
        peak_gib=_number(row["peak_mem_gib"]) or None,
        fits={"1": True, "0": False}.get(row["fits"]),
    )


def network_of(row: Row) -> Network:
    """The shape as given, else of the model's name, else the usual one of its size."""
    words = f"{row['arch']} {row['model']} {row['notes']}".lower()
    layers, hidden = int(_number(row["n_layers"])), int(_number(row["hidden"]))
    vocab = int(_number(row["vocab"])) or (30522 if row["arch"] == "bert" else 51200)
    experts = int(_number(_after(row["notes"], r"experts (\d+)")))
    published = _published(row["model"], _number(row["params_b"]) * 1e9)
    if published and (not (layers and hidden) or (published.experts and not experts)):
        return published
    if not (layers and hidden):
        if row["arch"] in {"t5", "hybrid", "nemotron"} and hidden:
            layers = layers or 24
        if row["arch"] == "transgan":
            layers, hidden, vocab = 24, 1024, 1024
        size = _number(row["params_b"]) * 1e9 or 0.4e9
        if not (layers and hidden):
            guess = of_size(size, vocab=vocab, layers=layers, hidden=hidden)
            layers, hidden = guess.layers, guess.hidden
    heads = int(_number(row["n_heads"])) or max(1, hidden // 128)
    active = 2 if experts else 1
    if "deepseek" in words or experts >= 64:
        active = min(experts, 8)
    head_width = 0 if hidden % heads == 0 else 128
    return Network(
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=int(_number(row["n_kv_heads"])) or heads,
        ffn=int(_number(row["ffn_hidden"])) or 4 * hidden,
        vocab=vocab,
        gated=any(word in words for word in GATED),
        causal=row["arch"] not in {"bert"},
        tied="untie" not in words and not any(word in words for word in GATED[:3]),
        cross_layers=layers // 2 if row["arch"] == "t5" else 0,
        experts=experts,
        active=active,
        head_width=head_width,
    )


def _published(model: str, parameters: float) -> Network | None:
    """The network that a model's name, or what it begins with, is known by, if the size agrees."""
    words = re.split(r"[ (]+", model)
    names = (" ".join(words[:count]) for count in range(len(words), 0, -1))
    for name in names:
        found = known(name)
        if found and (not parameters or abs(found.parameters / parameters - 1) < 0.3):
            return found
    return None


def layout_of(row: Row, net: Network) -> Layout:
    tensor, pipeline = _count(row["tp"]), _count(row["pp"])
    context, expert = _count(row["cp"]), _count(row["ep"])
    cards = int(_number(row["n_gpus"])) or max(8, tensor * pipeline * context * expert)
    if row["n_gpus"] and tensor * pipeline > cards:  # more ranks than cards: a misprint
        pipeline = max(1, cards // tensor)
    data = int(_number(row["dp"])) or max(1, cards // (tensor * pipeline * context))
    micro = _count(row["micro_bs"])
    batch = int(_number(row["global_bs"]))
    accumulation = max(1, round(batch / (micro * data))) if batch else _count(row["grad_accum"])
    task, words = row["task"].lower(), f"{row['model']} {row['notes']}".lower()
    precision, mixed = _precision(row["precision"])
    adapter = any(word in task for word in ("lora", "adapter"))
    learn = 1.0
    if adapter:
        ends = net.embedding_parameters + net.head_parameters
        learn = 0.005 + (ends / net.parameters if "emb" in task else 0.0)
    quantised = "q-lora" in task or "qlora" in task or "nf4" in row["precision"]
    return Layout(
        sequence=_count(row["seq_len"])
        if row["seq_len"]
        else (1024 if row["arch"] == "transgan" else 2048),
        micro_batch=micro,
        accumulation=accumulation,
        tensor=tensor,
        pipeline=pipeline,
        virtual=_virtual(row, net, pipeline),
        context=context,
        expert=expert if net.experts else 1,
        data=data,
        shard=_shard(row["shard"].lower()),
        recompute=_recompute(row["act_ckpt"].lower()),
        flash=_flash(row, words),
        sequence_parallel="sequence-parallel" in words
        or (
            tensor > 1
            and (any(name in row["framework"].lower() for name in ("bridge", "nemo", "titan")))
        ),
        overlap="overlap-grad-reduce" in words or "composer" in row["framework"].lower(),
        precision=precision,
        mixed=mixed and not adapter,
        trainable=learn,
        base_bits=4.5 if quantised else 0.0,
        optimizer_bytes=_optimizer_bytes(row, precision, mixed=mixed),
        gradient_bytes=_gradient_bytes(row, mixed=mixed),
        offload="opt offl=y" in words,
        stages=_stages(row, net, pipeline),
    )


def cluster_of(row: Row) -> Cluster:
    memory = _number(row["gpu_mem_gb"])
    card = _card(row["gpu"], memory or None)
    per_node = int(_number(row["gpus_per_node"])) or 8
    pcie = "PCIE" in row["intra_node"].upper() and "NVLINK" not in row["intra_node"].upper()
    network = _number(_after(row["inter_node_gbps"], r"^(\d+)")) / 8
    usual = NETWORK_GB_S.get(card.architecture, 50.0) * per_node
    return Cluster(
        card=card,
        per_node=per_node,
        memory_gb=memory or card.memory_gb,
        node_gb_s=(12.0 if pcie or not card.link else card.link_gb_s * 0.7),
        network_gb_s=(network or usual) * 0.8,
    )


def _card(text: str, memory: float | None) -> Accelerator:
    """Of mixed cards the slowest, which the others wait for. One that is not known, or not named,
    is taken for the card that most rows were measured on."""
    found = []
    for name in (text, *re.split(r"[+,/&]", text)):
        try:
            found.append(accelerator(name.strip(), memory))
        except ValueError:
            continue
        if name == text:
            break
    return min(found, key=lambda card: card.peak["fp16"], default=accelerator("A100", memory))


def _place(row: Row) -> str:
    """Which machines with which software: the file, and the series of a test in it."""
    series = [word for word in ("_resume", "_1node") if word in row["model"]]
    return " ".join([Path(row["source_path"]).name, *series])


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def _count(text: str) -> int:
    return max(1, int(_number(text)))


def _after(text: str, pattern: str) -> str:
    found = re.search(pattern, text)
    return found.group(1) if found else ""


def _precision(text: str) -> tuple[str, bool]:
    """The products' precision, and whether fp32 master weights stand beside."""
    text = text.lower()
    pure = "pure" in text or "true" in text
    if "fp4" in text:
        return "fp8", True
    for name in ("fp8", "bf16", "fp16", "tf32", "fp32"):
        if name in text:
            return name, not pure and name not in {"tf32", "fp32"}
    return "bf16", True


def _shard(text: str) -> Shard:
    if "zero3" in text or "full_shard" in text or text == "fsdp" or "zero-3" in text:
        return Shard.WEIGHTS
    if "zero2" in text or "grad_op" in text or "zero-2" in text:
        return Shard.GRADIENTS
    if "fsdp" in text or "hsdp" in text:
        return Shard.WEIGHTS
    return Shard.OPTIMIZER if "zero" in text or "deepspeed y" in text else Shard.NOTHING


def _recompute(text: str) -> Recompute:
    if text.startswith("full"):
        return Recompute.FULL
    return Recompute.SELECTIVE if text.startswith(("sel", "core")) else Recompute.NONE


def _flash(row: Row, words: str) -> bool:
    """Megatron had no fused attention before its transformer-engine layers."""
    if row["flash_attn"]:
        return row["flash_attn"] not in {"0", "no", "False"}
    framework = row["framework"].lower()
    if "golden" in row["source"].lower():
        local = re.search(r"(gpt3|bert|t5|moe)_mcore", words) and "_te" not in words
        return not local or _count(row["cp"]) > 1
    return "megatron" not in framework or "bridge" in framework or "nemo" in framework


def _virtual(row: Row, net: Network, pipeline: int) -> int:
    per_stage = int(_number(_after(row["vpp"], r"stage=(\d+)")))
    if per_stage:
        return max(1, net.layers // (pipeline * per_stage))
    return _count(row["vpp"])


def _optimizer_bytes(row: Row, precision: str, *, mixed: bool) -> float:
    if "8-bit" in row["task"] or "8bit" in row["optimizer"].lower():
        return 2.0
    return 8.0 if mixed or precision in {"fp32", "tf32"} else 4.0


def _gradient_bytes(row: Row, *, mixed: bool) -> float:
    """fp32 beside 16-bit ones under DeepSpeed's bf16, fp32 in Megatron; adapters that are saved
    whole keep a copy of their weights."""
    task, framework = row["task"].lower(), row["framework"].lower()
    if "lora" in task:
        return 4.0
    if "deepspeed" in framework and "megatron" not in framework:
        return 6.0
    return 4.0 if mixed and "megatron" in framework else 0.0


def _stages(row: Row, net: Network, pipeline: int) -> tuple[int, ...]:
    """Uneven stages from the notes: ends counted as layers are taken off again."""
    listed = _after(row["notes"], r"stage layers \[([\d, ]+)\]")
    cuts = _after(row["notes"], r"layer boundaries \[([\d, ]+)\]")
    if listed:
        counts = [int(part) for part in listed.split(",")]
        extra = sum(counts) - net.layers
        counts[0] -= extra // 2
        counts[-1] -= extra - extra // 2
    elif cuts:
        bounds = [int(part) for part in cuts.split(",")]
        extra = bounds[-1] - net.layers
        if not 0 <= extra <= 8:  # unlike layers, cut to cost alike: as good as an even cut
            return ()
        first, last = extra // 3, bounds[-1] - (extra - extra // 3)
        kept = [min(max(bound, first), last) for bound in bounds]
        counts = [stop - start for start, stop in pairwise(kept)]
    else:
        return ()
    return tuple(counts) if len(counts) == pipeline and min(counts) >= 0 else ()
