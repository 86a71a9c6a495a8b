"""fleet.yaml as a Fleet."""

import pytest

from argosy.core.errors import SpecError
from argosy.core.fleet import LOGBOOK, Fleet, Host, Link, Site
from argosy.spec import parse_fleet

TEXT = """\
version: 1
home: DE
currency: EUR
sites:
  frankfurt:
    country: DE
    link: {mbit_per_s: 1 Gbit/s, rtt_ms: 0.012 s, jitter_ms: 1, price_per_gb: 0.02 EUR/GB}
    hosts:
      frankfurt-1: {address: 10.0.0.4, cores: 8, memory_gb: 512 MB, gpus: 1}
      frankfurt-2:
  tokyo:
    country: JP
    link: {mbit_per_s: 100, rtt_ms: 230}
    hosts:
      tokyo-1: {price_per_hour: 0.05 EUR per hour, spot: yes, tokens_per_s: 900}
lab:
  faults: [kill tokyo-1 at round 4, return tokyo-1 at round 6]
"""


def test_every_key_arrives_where_it_belongs() -> None:
    assert parse_fleet(TEXT) == Fleet(
        home="DE",
        sites=(
            Site(
                name="frankfurt",
                country="DE",
                hosts=(
                    Host(name="frankfurt-1", address="10.0.0.4", cores=8, memory_gb=0.512, gpus=1),
                    Host(name="frankfurt-2"),
                ),
            ),
            Site(
                name="tokyo",
                country="JP",
                hosts=(Host(name="tokyo-1", price_per_hour=0.05, spot=True, tokens_per_s=900.0),),
            ),
        ),
        links=(
            Link(
                a="frankfurt",
                b=LOGBOOK,
                mbit_per_s=1000.0,
                rtt_ms=12.0,
                jitter_ms=1.0,
                price_per_gb=0.02,
            ),
            Link(a="tokyo", mbit_per_s=100.0, rtt_ms=230.0),
        ),
        currency="EUR",
        faults=("kill tokyo-1 at round 4", "return tokyo-1 at round 6"),
    )


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("home: DE", "home: {country: DE, city: Bonn}", "home: unknown key 'city'"),
        ("home: DE", "home: [DE]", "home: expected keys and values, got a list"),
        (
            "EUR\nsites",
            "Euro\nsites",
            "currency: expected a currency such as USD or EUR, got 'Euro'",
        ),
        (
            "    link: {mbit_per_s: 100, rtt_ms: 230}\n",
            "",
            "sites.tokyo: the key 'link' is missing",
        ),
        ("mbit_per_s: 100,", "mbit_per_s: 0,", "sites.tokyo.link.mbit_per_s: expected more than 0"),
        (
            "mbit_per_s: 100,",
            "mbit_per_s: 5 mbit/s,",
            "sites.tokyo.link.mbit_per_s: expected one of",
        ),
        ("cores: 8", "cores: 0", "sites.frankfurt.hosts.frankfurt-1.cores: expected at least 1"),
        ("tokyo-1: {", "'tokyo 1': {", "sites.tokyo.hosts.tokyo 1: expected a name of letters"),
        ("tokyo-1: {", "controller: {", "sites.tokyo.hosts.controller: the name 'controller' is t"),
        (
            "[kill tokyo-1 at round 4, return tokyo-1 at round 6]",
            "7",
            "lab.faults: expected a list",
        ),
        ("0.02 EUR/GB", "0.02 USD/GB", "sites.frankfurt.link.price_per_gb: expected EUR, the curr"),
        ("  tokyo:\n", "  Frankfurt:\n", "sites.Frankfurt: the name 'Frankfurt' is given twice"),
        (TEXT[TEXT.index("sites:") :], "sites: {}\n", "sites: expected at least 1 entry, got 0"),
        (TEXT[TEXT.index("sites:") :], "", "the key 'sites' is missing"),
    ],
)
def test_a_wrong_value_is_answered_with_what_was_expected(old: str, new: str, says: str) -> None:
    assert old in TEXT

    with pytest.raises(SpecError) as caught:
        parse_fleet(TEXT.replace(old, new))

    assert caught.value.what.startswith(says)


def test_a_unit_in_the_wrong_case_is_answered_with_the_right_one() -> None:
    with pytest.raises(SpecError) as caught:
        parse_fleet(TEXT.replace("mbit_per_s: 100,", "mbit_per_s: 5 mbit/s,"))

    assert caught.value.hint == "did you mean 'Mbit/s'?"
