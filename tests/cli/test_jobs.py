"""tuner jobs, of a cluster with one job, which has failed to start."""


def test_jobs_are_listed(cluster):
    assert '"job_id": "a"' in cluster("jobs", "--json").stdout
    assert cluster("jobs").stdout.splitlines()[1].startswith("a   failed")
