"""job.yaml as a Job."""

from pathlib import Path

from argosy.core.job import Exchange, Job, Limits, Source, Training
from argosy.core.law import Form, Policy, Rule
from argosy.spec import text
from argosy.spec.document import document
from argosy.spec.job_keys import ExchangeKeys, JobKeys, RuleKeys, SourceKeys, TrainingKeys
from argosy.spec.mistakes import Mistake, refuse, suggest
from argosy.spec.reading import checked, repeated


def read_job(path: Path) -> Job:
    """Raises SpecError naming the file, the line, what was expected and what to do."""
    return parse_job(text.read(path), str(path))


def parse_job(content: str, where: str = "job.yaml") -> Job:
    """As read_job, from text. Paths stay as written: relative to the folder of the job file."""
    page = document(content, where)
    keys = checked(page, JobKeys)
    mistakes = [
        *repeated((("sources", i, "name"), s.name) for i, s in enumerate(keys.sources)),
        *_strangers(keys),
    ]
    if mistakes:
        raise refuse(page, mistakes)
    money = keys.limits.money
    return Job(
        name=keys.name,
        model=keys.model.noun(),
        sources=tuple(
            _source(source, page.place(("sources", index)))
            for index, source in enumerate(keys.sources)
        ),
        training=_training(keys.training),
        exchange=_exchange(keys.exchange),
        limits=Limits(
            money=money.amount if money else None,
            currency=money.currency if money else None,
            hours=keys.limits.hours,
            where=page.place(("limits",)) if money or keys.limits.hours else "",
        ),
        policy=Policy(
            rules=tuple(
                _rule(rule, page.place(("policy", index))) for index, rule in enumerate(keys.policy)
            )
        ),
        model_where=page.place(("model",)),
    )


def _strangers(keys: JobKeys) -> list[Mistake]:
    """Sources that a rule names and the job has not."""
    known = [source.name for source in keys.sources]
    return [
        Mistake(
            path=("policy", number, "sources", index),
            what=f"the job has no source {name!r}{suggest(name, known)}",
            hint=f"its sources: {', '.join(known)}",
        )
        for number, rule in enumerate(keys.policy)
        for index, name in enumerate(rule.sources)
        if name not in known
    ]


def _source(keys: SourceKeys, where: str) -> Source:
    return Source(
        name=keys.name,
        path=keys.path,
        country=keys.country,
        personal=keys.personal,
        sensitive=keys.sensitive,
        sites=tuple(dict.fromkeys(keys.sites)),
        text_field=keys.text_field,
        held_out=keys.held_out,
        where=where,
    )


def _training(keys: TrainingKeys) -> Training:
    first, second = keys.betas
    return Training(**keys.model_dump(exclude={"betas"}), betas=(first, second))


def _exchange(keys: ExchangeKeys) -> Exchange:
    window = keys.window.noun() if keys.window else None
    return Exchange(**keys.model_dump(exclude={"window"}), window=window)


def _rule(keys: RuleKeys, where: str) -> Rule:
    return Rule(
        effect="deny" if keys.allow is None else "allow",
        forms=tuple(dict.fromkeys(Form(name) for name in keys.allow or keys.deny or ())),
        origins=tuple(dict.fromkeys(keys.from_)),
        destinations=tuple(dict.fromkeys(keys.to)),
        personal=keys.personal,
        sensitive=keys.sensitive,
        sources=tuple(dict.fromkeys(keys.sources)),
        why=keys.why,
        where=where,
    )
