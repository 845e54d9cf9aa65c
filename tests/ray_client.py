"""Ray's client for jobs, played."""

import asyncio
from types import SimpleNamespace


class FakeClient:
    """Has these jobs, and records the calls that change them."""

    def __init__(self, *jobs, log=("a\n", "b\n")):
        self.jobs = list(jobs)
        self.log = log
        self.calls = []

    def submit_job(self, **options):
        self.calls.append(options)
        self.jobs.append(
            details("new", "SUCCEEDED", code=0, metadata=options["metadata"])
        )
        return "new"

    def list_jobs(self):
        return self.jobs

    def stop_job(self, job_id):
        self.calls.append(job_id)

    def get_job_logs(self, job_id):
        return "".join(self.log)

    async def tail_job_logs(self, job_id):
        for text in self.log:
            await asyncio.sleep(0)
            yield text


def details(
    job_id, status, *, code=None, metadata=None, started=1000, ended=2000, message=""
):
    return SimpleNamespace(
        submission_id=job_id,
        status=SimpleNamespace(value=status),
        metadata={"tuner_search": "run x"} if metadata is None else metadata,
        start_time=started,
        end_time=ended,
        driver_exit_code=code,
        message=message,
    )
