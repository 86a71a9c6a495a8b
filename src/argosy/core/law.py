"""What may leave a country, in which form, by which rule: the nouns of the policy."""

from dataclasses import dataclass
from enum import StrEnum


class Form(StrEnum):
    """The shapes in which what was learned from a source can move."""

    RAW = "raw"
    DERIVED = "derived"  # tokens, features, caches: anything from which raw can be read back
    UPDATE = "update"
    MASKED_UPDATE = "masked update"
    NOISED_UPDATE = "noised update"
    CHECKPOINT = "checkpoint"
    METRIC = "metric"
    LOG = "log"


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """One sentence of a policy. The more specific rule does not win: any deny beats every allow."""

    effect: str  # "allow" | "deny"
    forms: tuple[Form, ...]
    origins: tuple[str, ...]  # countries, blocs ("EU") or "*": where the source comes from
    destinations: tuple[str, ...]  # countries, blocs or "*"
    personal: bool | None = None  # None: whether personal or not
    sensitive: bool | None = None
    sources: tuple[str, ...] = ()  # () = every source
    why: str = ""
    where: str = ""  # file:line, so that a refusal can name the rule


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """Rules; what no rule allows stays where it is."""

    rules: tuple[Rule, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """May it go? `rule` is the index of the deciding rule; None when no rule speaks of it."""

    allowed: bool
    rule: int | None
    reason: str
