"""tuner stop, of a cluster with one job, which has failed to start."""


def test_what_was_stopped_can_be_gone_on_with(cluster):
    text = cluster("stop", "a").stdout
    assert "go on with: tuner submit --resume NAME --address http://head:8265" in text
