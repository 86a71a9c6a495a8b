"""A Site inside transformers' Trainer."""

from typing import TYPE_CHECKING, Any

from transformers.trainer_callback import TrainerCallback as Callback

from argosy.core.errors import SpecError

if TYPE_CHECKING:
    from argosy.engine.site import Site


class TrainerCallback(Callback):
    """Counts each optimizer step of a Trainer at a site, and stops the Trainer with the run.

    with argosy.Site(model, optimizer) as site:
        Trainer(model, arguments, train_dataset=..., optimizers=(optimizer, None),
                callbacks=[argosy.TrainerCallback(site, tokens_per_step=batch * sequence)]).train()
    """

    def __init__(self, site: "Site", *, tokens_per_step: int | None = None) -> None:
        """`site`: entered. `tokens_per_step`: of one optimizer step at this site, accumulation
        included; without it the Trainer counts (include_num_input_tokens_seen)."""
        self._site = site
        self._tokens_per_step = tokens_per_step
        self._seen = 0

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> Any:  # noqa: ARG002
        self._seen = int(state.num_input_tokens_seen)
        control.should_training_stop = self._site.over
        return control

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:  # noqa: ARG002
        """Raises SpecError if nobody counts tokens."""
        tokens = self._tokens_per_step
        if tokens is None:
            seen = int(state.num_input_tokens_seen)
            tokens, self._seen = seen - self._seen, seen
            if not tokens:
                raise SpecError(
                    "nobody counts the tokens of a step",
                    where="argosy.TrainerCallback",
                    hint="tokens_per_step=..., or include_num_input_tokens_seen='all' in the"
                    " TrainingArguments",
                )
        if not self._site.step(tokens):
            control.should_training_stop = True
        return control
