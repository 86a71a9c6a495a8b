"""What this host may read, and what may leave of it: asked of the policy here, before any file."""

import hashlib
import logging
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from argosy.core.errors import DiskError, PolicyError
from argosy.core.law import Form
from argosy.data.corpus import Corpus, open_source, training
from argosy.data.tokens import BYTES, Coding, Tokens
from argosy.engine.evaluate import held_of
from argosy.engine.tokens import BYTES as BY_BYTES
from argosy.engine.tokens import Tokenizer, open_tokenizer
from argosy.engine.trainer import Materials
from argosy.policy import site_verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from argosy.core.fleet import Fleet
    from argosy.core.job import Job
    from argosy.core.law import Verdict
    from argosy.core.plan import SitePlan
    from argosy.core.records import Access
    from argosy.engine.config import Workplace

log = logging.getLogger(__name__)


class Openings:
    """The sources of one site's plan, opened one by one, each opening written down first."""

    def __init__(self, job: "Job", fleet: "Fleet", place: "Workplace") -> None:
        self._job = job
        self._home = fleet.home
        self._country = fleet.site(place.site).country
        self._place = place

    @cached_property
    def tokenizer(self) -> Tokenizer:
        return open_tokenizer(self._job.training.tokenizer, self._place.data)

    def open(
        self,
        plan: "SitePlan",
        write_down: "Callable[[Access], None]",
        tell: "Callable[[str, str], None]",
    ) -> Materials:
        """`write_down` returns when the record is in the log; only then is a text read."""
        opened = []
        for name in plan.sources:
            corpus = open_source(
                self._job.source(name),
                self._place.data,
                site_country=self._country,
                policy=self._job.policy,
            )
            write_down(corpus.access("train"))
            opened.append(self._tokens(corpus, tell))
        sequence, seed = self._job.training.sequence, self._job.training.seed
        held = (held_of(each, sequence) for each in opened)
        return Materials(
            sources=plan.sources,
            sequences=training(opened, sequence=sequence, seed=seed),
            held=tuple(each for each in held if each is not None),
        )

    def rule(self, plan: "SitePlan") -> str:
        """The verdict by which this site's updates go to the logbook."""
        verdict = self._verdict(Form.UPDATE, plan)
        if not verdict.allowed:
            raise PolicyError(
                f"updates of {plan.site} may not go to the logbook in {self._home}:"
                f" {verdict.reason}",
                where=f"site {plan.site}",
                hint="add a rule that allows updates to go there, or move the logbook",
            )
        return verdict.reason

    def metrics(self, plan: "SitePlan") -> bool:
        verdict = self._verdict(Form.METRIC, plan)
        if not verdict.allowed:
            log.warning("no progress and no evaluations are told: %s", verdict.reason)
        return verdict.allowed

    def _verdict(self, form: Form, plan: "SitePlan") -> "Verdict":
        sources = [self._job.source(name) for name in plan.sources]
        return site_verdict(self._job.policy, form, sources, self._home)

    def _tokens(self, corpus: Corpus, tell: "Callable[[str, str], None]") -> Tokens:
        try:
            return corpus.tokens(self._coding(), self._place.scratch / "tokens")
        except DiskError as error:
            tell("disk", str(error))
            return corpus.tokens(self._coding(), None)

    def _coding(self) -> Coding:
        tokenizer = self.tokenizer
        if tokenizer.name == BY_BYTES:
            return BYTES
        content = (self._place.data / tokenizer.name).read_bytes()
        return Coding(
            identity=f"sha256:{hashlib.sha256(content).hexdigest()}",
            vocabulary=tokenizer.vocabulary,
            end=tokenizer.end,
            encode=lambda text: np.asarray(tokenizer.encode(text)).tolist(),
        )
