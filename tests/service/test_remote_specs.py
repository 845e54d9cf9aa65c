"""Specs that come over HTTP."""

import pytest

from tuner.errors import UsageError
from tuner.service.remote_specs import check_remote


@pytest.mark.parametrize(
    "raw",
    [
        {"log": "wandb"},
        {"notify": ["https://x/"]},
        {"storage": "/tmp"},
        {"training": {"model": "mine:Net"}},
        {"training": {"data_dir": "/etc"}},
        {"search": {"space": {"start_from": "/x"}}},
        {"search": {"configs": [{"data_dir": "/etc"}]}},
        {"warm_start": "../other"},
        {"warm_start": "~root"},
    ],
)
def test_files_and_code_are_refused(snapshot, raw):
    with snapshot.raises(UsageError):
        check_remote(raw)
