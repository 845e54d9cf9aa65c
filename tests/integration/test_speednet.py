"""The experiment that ships with a Learner in one file, from the command line to its test split."""

import pytest
from cifar10_archives import write_archive
from driven import call, shown


@pytest.mark.slow
def test_speednet_is_searched_and_evaluated(ray_here, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    write_archive(tmp_path / "data/cifar-10-binary.tar.gz")
    training = [f"training.data_dir={tmp_path / 'data'}", "training.width=4"]
    shorter = [
        "search.space.batch_size=choice([30, 60])",
        "scheduler.max_t=2",
        "--num-samples=1",
    ]
    assert (
        call(
            "run", "cifar10_speednet", "--no-evaluate", *training, *shorter
        ).return_value
        == 0
    )
    assert shown("show", "cifar10_speednet")["counts"]["completed"] == 1
    assert shown("evaluate", "cifar10_speednet")["images"] == 40
