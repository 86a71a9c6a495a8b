"""Cases from files: given a job, a fleet and what was measured, this plan or this refusal."""

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import yaml

from argosy.core.errors import NoPlan
from argosy.core.fleet import Fleet, Host, Link, Site
from argosy.core.job import (
    Exchange,
    Job,
    Limits,
    ModelFromConfig,
    Source,
    StepWindow,
    TimeWindow,
    Training,
)
from argosy.core.plan import HostFacts, Plan
from argosy.planner import plan

CASES = sorted((Path(__file__).parents[1] / "cases" / "planner").glob("*.yaml"))
REWRITE = bool(os.environ.get("ARGOSY_REWRITE_GOLDEN"))


def planned(case: dict[str, Any]) -> Plan:
    sites, links, facts, placement = [], [], [], {}
    for name, site in case["sites"].items():
        hosts = site["hosts"]
        sites.append(
            Site(
                name=name,
                country=site.get("country", "DE"),
                hosts=tuple(
                    Host(
                        name=host,
                        price_per_hour=told.get("price", 0.0),
                        memory_gb=told.get("declared_gb"),
                    )
                    for host, told in hosts.items()
                ),
            )
        )
        facts += [
            HostFacts(
                host=host,
                tokens_per_s=told["tokens_per_s"],
                micro_batch=told.get("micro_batch", 8),
                peak_memory_gb=told.get("peak_gb", 0.5),
                memory_gb=told.get("memory_gb", 4.0),
                gpus=told.get("gpus", 0),
            )
            for host, told in hosts.items()
            if "tokens_per_s" in told
        ]
        links.append(
            Link(
                a=name,
                mbit_per_s=site.get("mbit", 100.0),
                rtt_ms=site.get("rtt_ms", 100.0),
                price_per_gb=site.get("price_per_gb", 0.0),
            )
        )
        placement[name] = tuple(site.get("sources", [f"{name} text"]))
    return plan(
        job_of(case.get("job", {})),
        Fleet(home="DE", sites=tuple(sites), links=tuple(links)),
        facts=tuple(facts),
        links=(),
        placement=placement,
        parameters=case["parameters"],
        number=case.get("number", 1),
        reason=case.get("reason", ""),
    )


def job_of(told: dict[str, Any]) -> Job:
    exchange = dict(told.get("exchange", {}))
    if "steps" in exchange:
        exchange["window"] = StepWindow(steps=exchange.pop("steps"))
    if "seconds" in exchange:
        exchange["window"] = TimeWindow(seconds=exchange.pop("seconds"))
    return Job(
        name="case",
        model=ModelFromConfig(),
        sources=(Source(name="text", path="text", country="DE", personal=False),),
        training=Training(
            tokens=told.get("tokens", 10_000_000),
            batch=told.get("batch", 16),
            sequence=told.get("sequence", 128),
        ),
        exchange=Exchange(**exchange),
        limits=Limits(**told.get("limits", {})),
    )


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_case_is_planned_as_its_file_says(path: Path) -> None:
    case = yaml.safe_load(path.read_text(encoding="utf-8"))
    expected = case["expect"]

    if "refused" in expected:
        with pytest.raises(NoPlan) as refusal:
            planned(case)
        for sentence in expected["refused"]:
            assert sentence in str(refusal.value)
        return

    found = planned(case)

    assert {
        site.site: {host.host: [host.accumulation, host.micro_batch] for host in site.hosts}
        for site in found.sites
    } == expected["hosts"]
    for name in ("codec", "window_steps", "window_seconds", "delay"):
        if name in expected:
            assert getattr(found.exchange, name) == expected[name]
    for name, value in expected.get("estimate", {}).items():
        assert getattr(found.estimate, name) == pytest.approx(value, rel=0.005), name
    said = "\n".join(found.reasons)
    for sentence in expected.get("reasons", []):
        assert sentence in said
    for sentence in expected.get("not", []):
        assert sentence not in said


GOLDEN = [path for path in CASES if path.with_suffix(".golden.json").exists()]


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_a_whole_plan_has_not_drifted(path: Path) -> None:
    golden = path.with_suffix(".golden.json")
    found = asdict(planned(yaml.safe_load(path.read_text(encoding="utf-8"))))
    text = json.dumps(found, indent=1, sort_keys=True) + "\n"
    if REWRITE:
        golden.write_text(text, encoding="utf-8")

    assert json.loads(golden.read_text(encoding="utf-8")) == json.loads(text)


def test_there_are_golden_plans() -> None:
    assert len(GOLDEN) >= 3
