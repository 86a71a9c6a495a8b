"""The plan: who trains what, how, the exchange, and the estimate with its reasons."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class HostFacts:
    """What a short calibration run of the job's own model measured on one host."""

    host: str
    tokens_per_s: float  # at `micro_batch`, all ranks calibrated at once
    micro_batch: int  # sequences per forward pass, the quickest that fits
    peak_memory_gb: float
    memory_gb: float
    cores: int = 1
    gpus: int = 0
    torch: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class HostPlan:
    host: str
    micro_batch: int
    accumulation: int  # micro-batches per optimizer step
    tokens_per_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class SitePlan:
    site: str
    hosts: tuple[HostPlan, ...]
    sources: tuple[str, ...]
    tokens_per_s: float
    seconds_per_step: float
    steps_per_round: float  # expected; exact in a step window
    bytes_per_round: int  # up plus down over the site's link
    transfer_s: float  # up, then down, at the link's measured rate


@dataclass(frozen=True, kw_only=True, slots=True)
class ExchangePlan:
    """The exchange as readers need it: a commit names the plan, the plan names the outer step."""

    codec: str
    block: int  # elements that share a scale
    window_steps: int | None  # exactly one of the two
    window_seconds: float | None
    delay: int
    outer_learning_rate: float
    outer_momentum: float
    staleness: int
    checkpoint_every: int
    evaluate_every: int
    moments: str = "own"  # "shared": AdamW's second moments go along, see exchange.moments


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    tokens_per_s: float
    rounds: int
    seconds: float
    money: float
    currency: str
    bytes_up: int  # all sites, whole run
    bytes_down: int
    allreduce_bytes: int  # what a ring all-reduce of fp32 gradients every step would have moved


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    number: int
    sites: tuple[SitePlan, ...]
    exchange: ExchangePlan
    estimate: Estimate
    parameters: int
    reasons: tuple[str, ...]

    def site(self, name: str) -> SitePlan:
        return next(site for site in self.sites if site.site == name)
