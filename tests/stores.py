"""An S3 of our own, for the tests of storages that are URLs."""

import importlib.util
import logging

import pytest

BUCKET = "s3://experiments"
_NEEDED = ("s3fs", "moto", "flask")

needs_s3 = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, _NEEDED)), reason=f"needs {', '.join(_NEEDED)}"
)


def serve(host="127.0.0.1"):
    """A server of S3 without anything in it, on a free port; `stop()` ends it."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address=host, port=0, verbose=False)
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
