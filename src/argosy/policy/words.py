"""Rules and movements as a person would say them. Pure."""

from collections.abc import Sequence

from argosy.catalog import place_name
from argosy.core.law import Form, Policy, Rule

_THINGS = {
    Form.RAW: "raw data",
    Form.DERIVED: "derived data",
    Form.UPDATE: "updates",
    Form.MASKED_UPDATE: "masked updates",
    Form.NOISED_UPDATE: "noised updates",
    Form.CHECKPOINT: "checkpoints",
    Form.METRIC: "metrics",
    Form.LOG: "logs",
}


def explain(policy: Policy) -> tuple[str, ...]:
    """Each rule in plain words, then what holds where no rule speaks."""
    return (
        *(_sentence(index, rule) for index, rule in enumerate(policy.rules)),
        "What stays in the country of its source needs no rule. Nothing else leaves it.",
    )


def rule_name(index: int, rule: Rule) -> str:
    """ "rule 2 (job.yaml:31)": people count from one."""
    return f"rule {index + 1} ({rule.where})" if rule.where else f"rule {index + 1}"


def things(form: Form) -> str:
    """The form as a plural: "masked updates"."""
    return _THINGS[form]


def series(words: Sequence[str]) -> str:
    """ "a, b and c"."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _sentence(index: int, rule: Rule) -> str:
    what = series([things(form) for form in rule.forms])
    origins = series([place_name(text) for text in rule.origins])
    destinations = series([place_name(text) for text in rule.destinations])
    may = "may" if rule.effect == "allow" else "may never"
    why = f", because: {rule.why}" if rule.why else ""
    name = rule_name(index, rule)
    return f"R{name[1:]}: {what} of {_kind(rule)} from {origins} {may} go to {destinations}{why}."


def _kind(rule: Rule) -> str:
    adjectives = [
        word if wanted else f"non-{word}"
        for word, wanted in (("personal", rule.personal), ("sensitive", rule.sensitive))
        if wanted is not None
    ]
    kind = " ".join([*adjectives, "source" if len(rule.sources) == 1 else "sources"])
    return f"the {kind} {series(rule.sources)}" if rule.sources else kind
