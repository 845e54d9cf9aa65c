"""tuner logs, of a cluster with one job, which has failed to start."""


def test_logs_are_data_and_followed_ones_are_not(cluster):
    assert cluster("logs", "a").stdout == "a\nb\n"
    followed = cluster("logs", "a", "--follow")
    assert (followed.return_value, followed.stdout) == (1, "")
    assert followed.stderr == "a\nb\njob a failed: no room\n"
