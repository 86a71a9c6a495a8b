"""Rules in plain words."""

from argosy.core.law import Form, Policy, Rule
from argosy.policy import explain
from argosy.policy.words import series

LAST = "What stays in the country of its source needs no rule. Nothing else leaves it."


def test_a_rule_reads_as_a_sentence_with_its_place_and_ground() -> None:
    policy = Policy(
        rules=(
            Rule(
                effect="allow",
                forms=(Form.UPDATE, Form.METRIC, Form.CHECKPOINT),
                origins=("EU",),
                destinations=("JP", "US"),
                personal=True,
                why="standard contractual clauses of 3 May",
                where="job.yaml:31",
            ),
        )
    )

    first, last = explain(policy)

    assert last == LAST
    assert first == (
        "Rule 1 (job.yaml:31): updates, metrics and checkpoints of personal sources from the EU"
        " may go to Japan and the United States, because: standard contractual clauses of 3 May."
    )


def test_a_denial_says_never_and_names_the_sources_that_it_is_about() -> None:
    rules = (
        Rule(
            effect="deny",
            forms=(Form.RAW,),
            origins=("*",),
            destinations=("*",),
            personal=False,
            sensitive=True,
            sources=("clinic",),
        ),
        Rule(
            effect="deny",
            forms=(Form.LOG, Form.DERIVED, Form.MASKED_UPDATE, Form.NOISED_UPDATE),
            origins=("DE", "FR"),
            destinations=("CN",),
            sources=("a", "b"),
        ),
    )

    first, second, _ = explain(Policy(rules=rules))

    assert first == (
        "Rule 1: raw data of the non-personal sensitive source clinic from any country may never"
        " go to any country."
    )
    assert second == (
        "Rule 2: logs, derived data, masked updates and noised updates of the sources a and b from"
        " Germany and France may never go to China."
    )


def test_without_rules_only_the_default_is_said() -> None:
    assert explain(Policy()) == (LAST,)


def test_a_series_of_one_is_that_one() -> None:
    assert series(["a"]) == "a"
    assert series(["a", "b", "c"]) == "a, b and c"
