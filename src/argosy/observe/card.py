"""The model card: what was trained, on what, where, under which rules. Pure."""

from typing import TYPE_CHECKING

from argosy.observe.charts import duration, number, size
from argosy.observe.report import times_fewer

if TYPE_CHECKING:
    from argosy.core.job import Job
    from argosy.observe.report import Extras
    from argosy.observe.story import Story


def card(job: "Job", story: "Story", extras: "Extras", *, version: str) -> str:
    """Markdown with the metadata block that model hubs read."""
    losses = "\n".join(
        f"| {name} | {seen[0][1]:.3f} | {seen[-1][1]:.3f} |" for name, seen in story.losses if seen
    )
    sources = "\n".join(
        f"| {s.name} | {s.country} | {'yes' if s.personal else 'no'} |"
        f" {'yes' if s.sensitive else 'no'} |"
        f" {', '.join(site.site for site in story.sites if s.name in site.sources)} |"
        for s in job.sources
    )
    sites = "\n".join(
        f"| {s.site} | {s.country} | {len(s.hosts)} | {s.committed:,} |"
        f" {size(s.payload_up)} | {size(s.payload_down)} |"
        for s in story.sites
    )
    rules = "\n".join(f"- {rule}" for rule in extras.policy)
    training = job.training
    return f"""---
library_name: transformers
tags: [argosy, federated, decentralized-training]
---
# {job.name}

Trained with [Argosy](https://pypi.org/project/argosy/) {version} at {len(story.sites)} sites that did not
share their data: {number(story.parameters)} parameters, {number(story.tokens)} tokens,
{len(story.rounds)} rounds, {duration(story.seconds)}. Run `{story.run}`; outcome: {story.outcome};
audit: {"ok" if extras.audit_ok else "FAILED"}.

## Quality

Bits per byte on the part of each source that training never saw.

| source | before | after |
|---|---|---|
{losses}

## Data

| source | country | personal | sensitive | read at |
|---|---|---|---|---|
{sources}

No text left its site. What left, in which form, by which rule:

{rules}

## Training

| site | country | hosts | tokens in the model | updates up | updates down |
|---|---|---|---|---|---|
{sites}

{training.optimizer}, learning rate {training.learning_rate:g}, sequences of {training.sequence}, batch
{training.batch} per site, seed {training.seed}. The sites exchanged {times_fewer(story):,.0f} times fewer bytes
than all-reduce of fp32 gradients would have moved for the same tokens.

## Limits

A model of this size and training repeats patterns of its sources; do not rely on what it says. Updates of the
model left the sites as the rules above allow: whether they reveal something of single records was not measured.
"""
