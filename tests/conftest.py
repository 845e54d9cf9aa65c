"""What every test may use."""

from uuid import uuid4

import pytest
import stores
from hypothesis import settings

# A loaded machine is no failure of the property.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")


@pytest.fixture(scope="session")
def _s3_server():
    server = stores.serve()
    yield server
    server.stop()


@pytest.fixture
def s3(_s3_server, monkeypatch):
    """An empty place in an S3 of this machine, which this process and its children find."""
    for name, value in stores.environment(_s3_server).items():
        monkeypatch.setenv(name, value)
    stores.make_bucket()
    return f"{stores.BUCKET}/{uuid4().hex}"
