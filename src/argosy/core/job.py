"""The job: model, sources, training, exchange, money and time at most."""

from dataclasses import dataclass, field

from argosy.core.law import Policy


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """A data set with an origin. `path` is relative to the data root of the host that opens it."""

    name: str
    path: str  # a file or a folder of .txt, .jsonl and their .gz
    country: str
    personal: bool
    sensitive: bool = False
    sites: tuple[str, ...] = ()  # () = wherever policy allows it raw
    text_field: str = "text"  # the key of a .jsonl line
    held_out: float = 0.02  # the fraction, taken by document position, that only evaluation sees
    where: str = field(default="", compare=False)  # file:line, so that a refusal can name it


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelFromConfig:
    """A transformers configuration; `config` includes "model_type"."""

    config: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelFromFolder:
    """Pretrained weights, or a bare config.json, in a local folder on the controller."""

    folder: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelFromClass:
    """The user's own code: "module:Class", called with `arguments`."""

    target: str
    arguments: dict[str, object] = field(default_factory=dict)


Model = ModelFromConfig | ModelFromFolder | ModelFromClass


@dataclass(frozen=True, kw_only=True, slots=True)
class Training:
    """How a site trains between two exchanges."""

    tokens: int  # global: the sum over all sites, after which the last round drains
    sequence: int = 128
    batch: int = 16  # sequences a site processes per optimizer step, over all its hosts
    learning_rate: float = 3e-3
    min_learning_rate_ratio: float = 0.1
    warmup_fraction: float = 0.05  # of global tokens
    weight_decay: float = 0.1
    betas: tuple[float, float] = (0.9, 0.95)
    clip_norm: float | None = 1.0
    optimizer: str = "adamw"  # "adamw" | "sgd"
    precision: str = "auto"  # "auto" | "fp32" | "bf16"
    seed: int = 0
    tokenizer: str = "bytes"  # or the path of a tokenizer.json
    evaluate_every: int = 1  # rounds


@dataclass(frozen=True, kw_only=True, slots=True)
class StepWindow:
    steps: int


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeWindow:
    seconds: float


Window = StepWindow | TimeWindow


@dataclass(frozen=True, kw_only=True, slots=True)
class Exchange:
    """How the sites agree. None: the plan chooses."""

    window: Window | None = None
    codec: str | None = None  # "fp32" | "int8" | "int4" | "ternary"
    delay: int = 1  # 0: a site waits for the commit before it trains on
    outer_learning_rate: float = 0.7
    outer_momentum: float = 0.6
    moments: str = "shared"  # "shared" | "own"
    staleness: int = 8  # rounds within which a contribution counts (S), and windows trained alone
    checkpoint_every: int = 5  # rounds


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    money: float | None = None
    currency: str | None = None  # as written with `money`; None: the fleet's
    hours: float | None = None
    where: str = field(default="", compare=False)  # file:line of the section


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """What the user wants."""

    name: str
    model: Model
    sources: tuple[Source, ...]
    training: Training
    exchange: Exchange = field(default_factory=Exchange)
    limits: Limits = field(default_factory=Limits)
    policy: Policy = field(default_factory=Policy)
    model_where: str = field(default="", compare=False)  # file:line of the model

    def source(self, name: str) -> Source:
        return next(source for source in self.sources if source.name == name)
