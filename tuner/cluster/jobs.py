"""Searches that run as jobs on a Ray cluster, through its dashboard's address.

The job is `tuner run`, or `tuner resume`, started on the cluster's head in a copy of the working
directory. Needs the extra `tuner[cluster]`, here and on the cluster.
"""

from __future__ import annotations

import asyncio
import logging
import shlex
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tuner import ray_compat
from tuner.cluster import access
from tuner.cluster.connect import build_runtime_env
from tuner.errors import ExperimentError, UsageError, suggest_similar
from tuner.places import is_url
from tuner.wording import find_program, suggest_install

STOPPED_CODE = 143  # of a job that was stopped: as of a search that SIGTERM has ended

_PORT = "8265 by default; from elsewhere by a tunnel: ssh -L 8265:localhost:8265 HEAD"
_SEARCH = "tuner_search"  # in the metadata of a job that is one
_PORTS = {"http": 80, "https": 443}
_ANSWER_S = 10.0
_POLL_S = 0.5
_NOT_YET = "No available agent"  # what a head says of a job while it is still starting
_START_S = 30.0
_FINISH_S = 30.0  # for a job's state to follow its log's end


@dataclass(frozen=True, slots=True)
class Job:
    """One search that was sent. started, ended: seconds since the epoch; None: not yet.

    status: Ray's: PENDING, RUNNING, SUCCEEDED, FAILED or STOPPED. code: the exit code of the
    search, None until it has ended by itself.
    """

    job_id: str
    status: str
    command: str
    started: float | None
    ended: float | None
    code: int | None
    message: str

    @property
    def exit_code(self) -> int:
        if self.status == "STOPPED":
            return STOPPED_CODE
        if self.code is not None:
            return self.code
        return 0 if self.status == "SUCCEEDED" else ExperimentError.exit_code


class Jobs:
    """The jobs of the cluster whose dashboard is at `address`: http://HOST:PORT.

    To be used within `connected`. Each method raises UsageError where the cluster does not answer.
    """

    def __init__(self, address: str, client: Any, *, poll_s: float = _POLL_S) -> None:
        self._address = address
        self._client = client
        self._poll_s = poll_s

    def submit(
        self, arguments: Sequence[str], *, directory: Path, storage: Path
    ) -> str:
        """Start `tuner ARGUMENTS` there with the files of `directory`; returns the job's id."""
        command = shlex.join(["-m", "tuner", *arguments, "--address", "auto"])
        deadline = time.monotonic() + _START_S
        with translate_ray_errors(self._address):
            while True:
                try:
                    job_id = self._client.submit_job(
                        # `exec`, so that a stop reaches the search itself
                        entrypoint=f"exec $({ray_compat.HEADS_PYTHON}) {command}",
                        metadata={_SEARCH: " ".join(arguments)},
                        runtime_env=build_runtime_env(directory, storage, code=True),
                    )
                    return str(job_id)
                except RuntimeError as error:
                    if _NOT_YET not in str(error) or time.monotonic() > deadline:
                        raise
                time.sleep(self._poll_s)

    def list_jobs(self) -> list[Job]:
        """The searches among the cluster's jobs, newest first."""
        with translate_ray_errors(self._address):
            details = self._client.list_jobs()
        jobs = [
            _parse_job(each) for each in details if _SEARCH in (each.metadata or {})
        ]
        return sorted(jobs, key=lambda job: job.started or time.time(), reverse=True)

    def find_job(self, job_id: str) -> Job:
        jobs = {job.job_id: job for job in self.list_jobs()}
        if job_id not in jobs:
            hint = suggest_similar(job_id, jobs)
            others = f"available: {', '.join(jobs)}" if jobs else "it has none"
            raise UsageError(f"no job {job_id!r} at {self._address}{hint}; {others}")
        return jobs[job_id]

    def stop(self, job_id: str) -> Job:
        """End the job as SIGTERM does; return when it has ended."""
        self.find_job(job_id)
        with translate_ray_errors(self._address):
            self._client.stop_job(job_id)
        return self.wait_for_end(job_id)

    def read_log(self, job_id: str) -> str:
        self.find_job(job_id)
        with translate_ray_errors(self._address):
            return str(self._client.get_job_logs(job_id))

    def follow_log(self, job_id: str, write: Callable[[str], object]) -> Job:
        """Pass the job's output to `write` until it ends; returns the ended job."""

        async def write_log() -> None:
            async for text in self._client.tail_job_logs(job_id):
                write(text)

        with translate_ray_errors(self._address):
            asyncio.run(write_log())
        return self.wait_for_end(job_id)

    def wait_for_end(self, job_id: str) -> Job:
        """Wait for a while until the job has ended, and return it."""
        deadline = time.monotonic() + _FINISH_S
        while (
            job := self.find_job(job_id)
        ).ended is None and time.monotonic() < deadline:
            time.sleep(self._poll_s)
        return job


def _parse_job(details: Any) -> Job:
    return Job(
        job_id=details.submission_id,
        status=str(details.status.value),
        command=f"tuner {details.metadata[_SEARCH]}",
        started=details.start_time / 1000 if details.start_time else None,
        ended=details.end_time / 1000 if details.end_time else None,
        code=details.driver_exit_code,
        message=" ".join((details.message or "").split()),
    )


@contextmanager
def open_jobs(address: str) -> Iterator[Jobs]:
    """The jobs of the cluster whose dashboard is at `address`.

    Raises UsageError, with what to do, for an invalid URL, a missing extra, a dashboard that does
    not answer, and a missing or wrong token.
    """
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        what = f"--address takes the URL of the cluster's dashboard, got {address!r}"
        raise UsageError(f"{what}: http://HEAD:8265 ({_PORT})")
    with access.set_environment(access.create_join_environment()):
        if problem := access.find_token_problem():
            raise UsageError(problem)
        with translate_ray_errors(address):
            from ray.job_submission import JobSubmissionClient

            # At once if nothing answers: Ray's client itself would wait for minutes
            address_parts = parts.hostname, parts.port or _PORTS[parts.scheme]
            socket.create_connection(address_parts, _ANSWER_S).close()
            for name in ray_compat.JOB_LOGGERS:
                logging.getLogger(name).setLevel(logging.WARNING)
            client = JobSubmissionClient(address)
        yield Jobs(address, client)


@contextmanager
def translate_ray_errors(address: str) -> Iterator[None]:
    """Turn errors of Ray's client into UsageErrors that say what to do."""
    try:
        yield
    except ImportError as error:
        raise UsageError(
            f"jobs need a package: {suggest_install('cluster')}"
        ) from error
    except OSError as error:
        do = f"check that its head was started with a dashboard, and the address ({_PORT})"
        raise UsageError(f"no dashboard of Ray answers at {address}: {do}") from error
    except (RuntimeError, ValueError) as error:
        raise UsageError(f"the cluster at {address} refused: {error}") from error
    except Exception as error:
        if type(error).__name__ != "AuthenticationError":
            # Whose module asks for all of ray
            raise
        raise UsageError(
            f"the cluster at {address} {access.describe_refusal()}"
        ) from error


def relativize_experiment(experiment: str, directory: Path) -> str:
    """EXPERIMENT as the job finds it: a file in `directory` by its relative path.

    Raises UsageError for a file outside of it, which does not reach the cluster.
    """
    path = directory / experiment
    if not path.is_file():
        return experiment
    inside = path.resolve()
    top = directory.resolve()
    if not inside.is_relative_to(top):
        do = f"start {find_program()} submit in its folder"
        raise UsageError(
            f"{path} is not below the working directory, which is what is sent: {do}"
        )
    return inside.relative_to(top).as_posix()


def check_storage(storage: str) -> None:
    """Make sure that a job's results outlive it: raises UsageError for a relative storage."""
    if not is_url(storage) and not Path(storage).is_absolute():
        raise UsageError(
            "a job runs in a copy of this folder, so its storage must be a path that all nodes of "
            f"the cluster share, from the root: --storage /shared/results, got {storage!r}"
        )
