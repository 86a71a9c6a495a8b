"""A run with keys for its hosts, and a logbook in which it has begun."""

from pathlib import Path

import pytest
from fakes.logbook import Signing
from fakes.server import FLEET, JOB, begun

from argosy.logbook.server import Serving


@pytest.fixture
def signing(tmp_path: Path) -> Signing:
    return Signing(tmp_path / "keys", job=JOB, fleet=FLEET)


@pytest.fixture
def serving(signing: Signing) -> Serving:
    return begun(signing)
