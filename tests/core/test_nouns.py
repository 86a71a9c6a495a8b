"""Looking things up by name."""

from argosy.core.fleet import LOGBOOK, Fleet, Host, Link, Site
from argosy.core.job import Job, ModelFromConfig, Source, Training

ONE, TWO = Host(name="frankfurt-1"), Host(name="tokyo-1")
FRANKFURT = Site(name="frankfurt", country="DE", hosts=(ONE,))
TOKYO = Site(name="tokyo", country="JP", hosts=(TWO,))
FLEET = Fleet(
    home="DE",
    sites=(FRANKFURT, TOKYO),
    links=(
        Link(a="frankfurt", mbit_per_s=100, rtt_ms=12),
        Link(a="tokyo", mbit_per_s=100, rtt_ms=230),
    ),
)


def test_a_fleet_knows_its_sites_hosts_and_links_by_name() -> None:
    assert FLEET.site("tokyo") is TOKYO
    assert FLEET.host("tokyo-1") is TWO
    assert FLEET.site_of("frankfurt-1") is FRANKFURT
    assert FLEET.link("tokyo").rtt_ms == 230
    assert FLEET.link("tokyo").b == LOGBOOK


def test_a_job_knows_its_sources_by_name() -> None:
    sources = tuple(Source(name=n, path=n, country="DE", personal=False) for n in ("a", "b"))
    job = Job(name="x", model=ModelFromConfig(), sources=sources, training=Training(tokens=1))

    assert job.source("b") is sources[1]


def test_the_line_of_a_source_is_no_part_of_what_it_is() -> None:
    here = Source(name="a", path="a", country="DE", personal=False, where="job.yaml:7")
    there = Source(name="a", path="a", country="DE", personal=False, where="other.yaml:9")

    assert here == there
