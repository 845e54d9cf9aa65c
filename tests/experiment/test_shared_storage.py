import os
from uuid import uuid4

from tuner.experiment.remote.objects import Objects
from tuner.experiment.shared_storage import MISSING, find_sharing_fault, write_marker


def test_why_not_shared_answers_a_marker(tmp_path):
    with write_marker(tmp_path / "yet" / "to be made") as token:
        assert os.path.dirname(token) == str(tmp_path)
        assert find_sharing_fault(token) == ""
        assert len(os.listdir(token)) == 2
    assert find_sharing_fault(token) == MISSING


def test_why_not_shared_in_an_object_store():
    url = f"memory://{uuid4().hex}/runs"
    with write_marker(url) as token:
        assert token.startswith(f"{url}/.tuner-shared-")
        assert find_sharing_fault(token) == ""
        assert len(Objects(token).list_names()) == 2
        Objects(token).write("driver", b"another")
        assert find_sharing_fault(token) == MISSING
    assert Objects(url).list_names() == []
    assert find_sharing_fault(token).startswith(f"{MISSING}: ")
