"""What only a job and its fleet together can get wrong."""

from argosy.core.errors import SpecError
from argosy.core.fleet import Fleet
from argosy.core.job import Job
from argosy.spec.mistakes import suggest


def check_together(job: Job, fleet: Fleet) -> None:
    """Raises SpecError when the job speaks of sites or money that the fleet does not know."""
    known = [site.name for site in fleet.sites]
    for source in job.sources:
        for name in source.sites:
            if name not in known:
                raise SpecError(
                    f"source {source.name!r}: the fleet has no site {name!r}{suggest(name, known)}",
                    where=source.where or None,
                    hint=f"its sites: {', '.join(known)}",
                )
    if job.limits.currency not in (None, fleet.currency):
        raise SpecError(
            f"limits.money is in {job.limits.currency}, the fleet's prices are in {fleet.currency}",
            where=job.limits.where or None,
            hint="write both in one currency",
        )
