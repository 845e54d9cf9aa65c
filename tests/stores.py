"""An S3 of our own, for the tests of storages that are URLs."""

import importlib.util
import logging
import threading

import pytest

from tuner.experiment.remote.lease import acquire_lease
from tuner.experiment.remote.objects import Objects
from tuner.experiment.remote.segments import Uploader
from tuner.places import find_url

BUCKET = "s3://experiments"
_NEEDED = ("s3fs", "moto", "flask")

needs_s3 = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, _NEEDED)),
    reason=f"needs {', '.join(_NEEDED)}",
)


def serve(host="127.0.0.1", *, seen=lambda request: None):
    """A server of S3 without anything in it, on a free port; `stop()` ends it.

    seen: called with each request, as WSGI gives it.

    It answers one request at a time: moto looks whether an object exists and then writes it, so
    that of two requests to create one at the same time both could succeed, as they cannot in S3.
    """
    from moto.moto_server import threaded_moto_server
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication
    from moto.server import ThreadedMotoServer

    turn = threading.Lock()

    class OneAtATime(DomainDispatcherApplication):
        def __call__(self, request, respond):
            seen(request)
            with turn:
                return super().__call__(request, respond)

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address=host, port=0, verbose=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threaded_moto_server, "DomainDispatcherApplication", OneAtATime)
        server.start()
    return server


def environment(server, host=None):
    """What a process needs to use it."""
    bound, port = server.get_host_and_port()
    return {
        "AWS_ENDPOINT_URL": f"http://{host or bound}:{port}",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def make_bucket():
    """Make BUCKET, in the S3 of this process's environment."""
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()
    s3fs.S3FileSystem(use_listings_cache=False).makedirs(BUCKET, exist_ok=True)


def upload_experiment(folder):
    """Upload the copy of an experiment to its store, as its driver does."""
    objects = Objects(find_url(folder))
    objects.upload(folder / "experiment.json", "experiment.json")
    lease = acquire_lease(objects, lambda: 0, warn=print)
    Uploader(objects, folder / "journal.jsonl", lease.generation).upload()
    for path in sorted(folder.glob("trials/**/*")):
        if path.is_file():
            objects.upload(path, path.relative_to(folder).as_posix())
    lease.release()
