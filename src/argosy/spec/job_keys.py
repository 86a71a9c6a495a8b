"""The keys of job.yaml: what each is for, its type and its range."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from argosy.core import job as nouns
from argosy.spec.mistakes import wrong
from argosy.spec.words import (
    Count,
    Country,
    Hours,
    Keys,
    Name,
    Number,
    OneOrMore,
    Place,
    Price,
    Seconds,
    Target,
    Text,
    YesNo,
)

FormName = Literal[
    "raw", "derived", "update", "masked update", "noised update", "checkpoint", "metric", "log"
]
Forms = Annotated[list[FormName], OneOrMore, Field(min_length=1)]
Places = Annotated[list[Place], OneOrMore, Field(min_length=1)]
Ratio = Annotated[Number, Field(ge=0, le=1)]
BelowOne = Annotated[Number, Field(ge=0, lt=1)]


class ModelKeys(Keys):
    config: dict[str, object] | None = Field(
        default=None, min_length=1, description="a transformers configuration, with its model_type"
    )
    folder: Text | None = Field(
        default=None, description="a folder with config.json and perhaps weights"
    )
    class_: Target | None = Field(
        default=None, alias="class", description="your own code, as module:Class"
    )
    arguments: dict[str, object] | None = Field(
        default=None, description="what the class is called with"
    )

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: object) -> object:
        return {"class": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        given = [k for k in (self.config, self.folder, self.class_) if k is not None]
        if len(given) != 1:
            raise wrong(f"expected exactly one of config, folder and class, got {len(given)}")
        if self.arguments is not None and self.class_ is None:
            raise wrong("arguments go with class only")
        if self.config is not None and not isinstance(self.config.get("model_type"), str):
            raise wrong(
                "config: the key 'model_type' is missing", "model_type = llama, gpt2, or another"
            )
        return self

    def noun(self) -> nouns.Model:
        if self.config is not None:
            return nouns.ModelFromConfig(config=self.config)
        if self.folder is not None:
            return nouns.ModelFromFolder(folder=self.folder)
        return nouns.ModelFromClass(target=self.class_ or "", arguments=self.arguments or {})


class SourceKeys(Keys):
    name: Name = Field(description="how rules, reports and the model card call this source")
    path: Text = Field(description="a file or folder of .txt, .jsonl or .gz, from the job's folder")
    country: Country = Field(description="where the data is from and lies, as ISO 3166 code: DE")
    personal: YesNo = Field(description="whether it holds data about people: yes or no")
    sensitive: YesNo = Field(
        default=False, description="health, belief, origin and the like: yes or no"
    )
    sites: list[Name] = Field(
        default=[], description="the sites that train on it; left out: all that may open it"
    )
    text_field: Text = Field(default="text", description="the key of a .jsonl line that is read")
    held_out: Annotated[Number, Field(ge=0, le=0.5)] = Field(
        default=0.02, description="the part that only evaluation sees"
    )


class TrainingKeys(Keys):
    tokens: Annotated[Count, Field(ge=1, le=10**15)] = Field(
        description="how many tokens all sites train in total: 2_000_000 or 2M"
    )
    sequence: int = Field(default=128, ge=2, le=2**20, description="tokens per sequence")
    batch: int = Field(
        default=16, ge=1, le=2**20, description="sequences per step of a site, all hosts"
    )
    learning_rate: Annotated[Number, Field(gt=0)] = Field(
        default=3e-3, description="the peak, after warm-up"
    )
    min_learning_rate_ratio: Ratio = Field(
        default=0.1, description="where the cosine ends, as a part of learning_rate"
    )
    warmup_fraction: Ratio = Field(default=0.05, description="the part of all tokens that warms up")
    weight_decay: Annotated[Number, Field(ge=0)] = Field(default=0.1, description="AdamW's")
    betas: Annotated[list[BelowOne], Field(min_length=2, max_length=2)] = Field(
        default=[0.9, 0.95], description="AdamW's two"
    )
    clip_norm: Annotated[Number, Field(gt=0)] | None = Field(
        default=1.0, description="the largest norm of a gradient; null = no clipping"
    )
    optimizer: Literal["adamw", "sgd"] = Field(default="adamw", description="inside a site")
    precision: Literal["auto", "fp32", "bf16"] = Field(
        default="auto", description="of the forward pass; auto = bf16 where it helps"
    )
    seed: int = Field(default=0, ge=0, lt=2**63, description="of the data order")
    tokenizer: Text = Field(default="bytes", description="bytes, or the path of a tokenizer.json")
    evaluate_every: int = Field(default=1, ge=1, description="rounds between evaluations")

    @model_validator(mode="after")
    def _worth_a_step(self) -> Self:
        step = self.sequence * self.batch
        if self.tokens < step:
            raise wrong(
                f"tokens: expected at least one step of sequence x batch = {step:,}, got"
                f" {self.tokens:,}"
            )
        return self


class WindowKeys(Keys):
    steps: int | None = Field(default=None, ge=1, description="local steps between exchanges")
    seconds: Annotated[Seconds, Field(gt=0)] | None = Field(
        default=None, description="time between exchanges, so that unequal sites finish together"
    )

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if (self.steps is None) == (self.seconds is None):
            raise wrong("expected exactly one of steps and seconds")
        return self

    def noun(self) -> nouns.Window:
        if self.steps is not None:
            return nouns.StepWindow(steps=self.steps)
        assert self.seconds is not None
        return nouns.TimeWindow(seconds=self.seconds)


class ExchangeKeys(Keys):
    window: WindowKeys | None = Field(
        default=None, description="what a site trains between two exchanges; left out: planned"
    )
    codec: Literal["fp32", "int8", "int4", "ternary"] | None = Field(
        default=None, description="how updates are compressed; left out: planned"
    )
    delay: int = Field(
        default=1,
        ge=0,
        le=1,
        description="1 = train on while an update travels, 0 = wait for the others",
    )
    outer_learning_rate: Annotated[Number, Field(gt=0, le=10)] = Field(
        default=0.7, description="the step of the agreed model along the mean update"
    )
    outer_momentum: BelowOne = Field(default=0.6, description="Nesterov momentum of that step")
    moments: Literal["shared", "own"] = Field(
        default="shared",
        description="AdamW's second moments, one a row: told to the other sites, so that a"
        " majority outvotes nobody, or each site's own",
    )
    staleness: int = Field(default=8, ge=1, description="rounds within which a late update counts")
    checkpoint_every: int = Field(default=5, ge=1, description="rounds between checkpoints")


class LimitKeys(Keys):
    money: Price | None = Field(default=None, description="the most it may cost: 5 or '5 USD'")
    hours: Annotated[Hours, Field(gt=0)] | None = Field(
        default=None, description="the longest it may take: 2 or '90 min'"
    )


class RuleKeys(Keys):
    allow: Forms | None = Field(default=None, description="the forms that may go")
    deny: Forms | None = Field(default=None, description="the forms that may not; beats any allow")
    from_: Places = Field(alias="from", description="countries or blocs of the sources; '*' = all")
    to: Places = Field(description="countries or blocs where it may go; '*' = all")
    personal: YesNo | None = Field(
        default=None, description="only personal sources, or only others; left out: both"
    )
    sensitive: YesNo | None = Field(
        default=None, description="only sensitive sources, or only others; left out: both"
    )
    sources: list[Name] = Field(default=[], description="only these sources; left out: all")
    why: str = Field(default="", description="the legal ground, for the report and the auditor")

    @model_validator(mode="after")
    def _one_effect(self) -> Self:
        if (self.allow is None) == (self.deny is None):
            raise wrong("expected exactly one of allow and deny")
        return self


class JobKeys(Keys):
    """What to train, on what, and what may leave which country."""

    version: Literal[1] = Field(description="of this file format; always the first key")
    name: Name = Field(description="of the job; becomes part of the run's folder")
    model: ModelKeys = Field(description="config, folder or class")
    sources: list[SourceKeys] = Field(min_length=1, description="the data sets, with their origin")
    training: TrainingKeys = Field(description="how a site trains between two exchanges")
    exchange: ExchangeKeys = Field(
        default_factory=ExchangeKeys, description="how the sites agree; left out: planned"
    )
    limits: LimitKeys = Field(default_factory=LimitKeys, description="money and time at most")
    policy: list[RuleKeys] = Field(
        default=[], description="what may leave a country; without a rule nothing does"
    )
