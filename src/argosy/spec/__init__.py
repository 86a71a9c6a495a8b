"""Text in, values out, naming the wrong line."""

from argosy.spec.fleet_file import parse_fleet, read_fleet
from argosy.spec.job_file import parse_job, read_job
from argosy.spec.schema import KINDS, schema
from argosy.spec.together import check_together

__all__ = [
    "KINDS",
    "check_together",
    "parse_fleet",
    "parse_job",
    "read_fleet",
    "read_job",
    "schema",
]
