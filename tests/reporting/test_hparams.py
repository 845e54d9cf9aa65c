import pytest

from tuner.reporting.hparams import Summaries, columns_of, row_of
from tuner.spec.space.parsing import parse_space


def column(domain):
    (result,) = columns_of(parse_space({"x": domain}))
    return result


@pytest.mark.parametrize(
    ("domain", "kind", "values", "bounds"),
    [
        ("loguniform(1e-4, 1)", "number", None, (1e-4, 1)),
        ("quniform(0, 0.4, 0.1)", "number", (0, 0.1, 0.2, 0.3, 0.4), None),
        ("randn(0, 1)", "number", None, None),
        ("lograndint(16, 4096)", "number", None, (16, 4095)),
        ("randint(1, 5)", "text", ("1", "2", "3", "4"), None),
        ("choice([0.1, 0.01])", "number", (0.01, 0.1), None),
        ("choice([0, 0.5])", "number", (0, 0.5), None),
        ("choice([True, False])", "bool", (False, True), None),
        ("choice([None, 'step'])", "text", ("None", "step"), None),
        ("choice([None, 0.1])", "text", ("None", "0.1"), None),
        ("choice([1, True])", "text", ("1", "True"), None),
        ("choice([[1, 2], [3]])", "text", ("[1, 2]", "[3]"), None),
        ("choice([16, 32])", "text", ("16", "32"), None),
        (list(range(9)), "text", ("[0, 1, 2, 3, 4, 5, 6, 7, 8]",), None),
        (f"choice({list(range(20))})", "number", None, (0, 19)),
        (f"choice({list('abcdefghijkl')})", "text", None, None),
        (0.9, "number", (0.9,), None),
    ],
)
def test_columns_of_domain_have_its_filter(domain, kind, values, bounds):
    hparam = column(domain)
    assert (hparam.kind, hparam.values, hparam.bounds) == (kind, values, bounds)


def test_columns_of_whole_numbers_sort_as_numbers():
    hparam = column("choice([16, 128, 32])")
    assert [value.strip() for value in hparam.values] == ["16", "128", "32"]
    assert [value.strip() for value in sorted(hparam.values)] == ["16", "32", "128"]
    assert hparam.cell(16) in hparam.values


def test_row_of_branch_not_taken_is_empty():
    space = parse_space(
        {
            "optimizer": {
                "grid_search": [
                    {"name": "sgd", "momentum": "uniform(0, 1)"},
                    {"name": "adam"},
                ]
            },
            "dropout": "choice([None, {'p': 'uniform(0, 0.5)'}])",
            "model": {"depth": "choice([1, 2])"},
        }
    )
    columns = columns_of(space)
    assert [c.name for c in columns] == [
        "optimizer.name",
        "optimizer.momentum",
        "dropout",
        "dropout.p",
        "model.depth",
    ]
    assert columns[0].values == ("sgd", "adam")
    config = {"optimizer": {"name": "adam"}, "dropout": {"p": 0.1}, "model": {"depth": 2}}
    assert row_of(config, columns) == {
        "optimizer.name": "adam",
        "dropout.p": 0.1,
        "model.depth": "2",
    }
    config = {
        "optimizer": {"name": "sgd", "momentum": 0.5},
        "dropout": None,
        "model": {"depth": 1},
    }
    assert row_of(config, columns)["dropout"] == "None"


def test_summaries_show_status_and_varying_columns_first():
    from tensorboard.plugins.hparams import metadata

    domains = {f"h{number}": "uniform(0, 1)" for number in range(6)}
    summaries = Summaries("x", columns_of(parse_space(domains)), ["best/loss"])
    contents = summaries.of_trial({}, "running", started=1.0, ended=None)
    experiment = metadata.parse_experiment_plugin_data(contents[metadata.EXPERIMENT_TAG])
    shown = [info.name for info in experiment.hparam_infos if info.differs]
    assert shown == ["status", "h0", "h1", "h2", "h3"]
    assert len(experiment.hparam_infos) == 7
