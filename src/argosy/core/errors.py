"""The mistakes a user can mend: each says what, where and what now, and has its exit code."""


class UserError(Exception):
    """Something outside the program that a person can put right. Never shown with a traceback."""

    exit_code = 1

    def __init__(self, what: str, *, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        advice = f"\n  {self.hint}" if self.hint else ""
        return f"{place}{self.what}{advice}"


class SpecError(UserError):
    """A job, fleet or option that cannot be read as written."""

    exit_code = 2


class PolicyError(UserError):
    """A movement that no rule allows."""

    exit_code = 3


class NoPlan(UserError):
    """No way to do the job on this fleet within its limits."""

    exit_code = 3


class HostError(UserError):
    """A host, link, port or key that does not do its part."""

    exit_code = 4


class DiskError(UserError):
    """A disk that is full or not writable. What was acknowledged before is still safe."""

    exit_code = 5


class DamagedError(UserError):
    """A record, blob or checkpoint that is not what its digest or signature says."""

    exit_code = 6


class FencedError(DamagedError):
    """A newer life of the same host has written since: this one must stop, or catch up anew."""


INTERRUPTED = 130  # the exit code after Ctrl-C; children are stopped and the run can be resumed
