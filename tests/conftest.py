"""What every test gets: hypothesis profiles, and one thread for torch so that timings stay calm."""

import os

from hypothesis import HealthCheck, settings

os.environ.setdefault("OMP_NUM_THREADS", "1")

settings.register_profile("dev", max_examples=50, deadline=None)
settings.register_profile(
    "ci",
    max_examples=200,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("nightly", max_examples=5_000, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("ARGOSY_HYPOTHESIS", "ci" if os.environ.get("CI") else "dev"))
