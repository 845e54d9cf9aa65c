from hypothesis import given
from hypothesis import strategies as st
from optuna.trial import create_trial

from tuner.reporting.axes import Axis, build_axes, flatten_config
from tuner.reporting.optuna_study import build_distribution
from tuner.spec.space.parsing import parse_domain


def test_share_is_in_the_scale_of_the_axis():
    axis = Axis(low=0.01, high=1, is_log=True)
    assert [round(axis.scale_position(at), 6) for at in (0.01, 0.1, 1)] == [0, 0.5, 1]
    assert Axis(low=10, high=20).scale_position(12.5) == 0.25
    assert Axis(low=-1e308, high=1e308).scale_position(0) == 0.5
    assert Axis(low=3, high=3).scale_position(3) == 0.5


def test_categories_stand_at_their_indices():
    axis = Axis(("sgd", None, 1))
    assert axis.find_positions([1, "sgd", None]) == [2, 0, 1]
    assert [axis.scale_position(at) for at in (0, 1, 2)] == [0, 0.5, 1]
    assert (axis.find_category(None), axis.find_category(2)) == (None, "2")


@given(
    values=st.lists(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(-1e300, 1e300)
        | st.text(max_size=2),
        min_size=1,
        max_size=6,
    ),
    domain=st.sampled_from(
        [None, "loguniform(0.1, 1)", "lograndint(1, 9)", "choice([1, 'a'])"]
    ),
)
def test_axes_and_distributions_of_any_configs_hold_their_values(values, domain):
    domains = {} if domain is None else {"x": parse_domain(domain)}
    configs = [flatten_config({"x": value}) for value in values]
    for axis in build_axes(domains, configs).values():
        categories = [axis.find_category(config["x"]) for config in configs]
        distributions = {"x": build_distribution(axis)}
        for position in axis.find_positions(categories):
            assert -1e-9 <= axis.scale_position(position) <= 1 + 1e-9
        for category in categories:  # optuna refuses others
            create_trial(params={"x": category}, distributions=distributions, value=0)
