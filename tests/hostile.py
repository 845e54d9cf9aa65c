"""Hypothesis strategies for what a foreign file may hold in place of what belongs there."""

import copy
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

NESTED: Any = [[]]
for _ in range(200):
    NESTED = [NESTED]

values = st.sampled_from(
    [
        *(
            None,
            True,
            False,
            0,
            -1,
            1,
            1.5,
            10**15,
            2**63,
            10**400,
            1e308,
            -1e308,
            1e-320,
        ),
        *(float("nan"), float("inf"), "", "a", "x" * 10_000, "\ud800", "\0", "\x1b[2J"),
        *(
            "..",
            "../../x",
            "/etc/passwd",
            "~",
            "A(",
            "uniform(",
            "choice(['A('])",
            "choice([1])",
        ),
        *(
            "uniform(0, 1" + "0" * 400 + ")",
            f"uniform(0, {'-' * 900}x)",
            "lr ** 9 ** 9 > 1",
        ),
        *(
            "quniform(0, 1e300, 1e-300)",
            "randint(0, 1000000000000)",
            "loguniform(1e-3, 1)",
        ),
        *("00000", "99999999999", "completed", "failed", "grid", "json:dumps", "x:y"),
        *(
            [],
            {},
            [[]],
            {"a": {}},
            ["a"],
            [1, "x", None],
            [["lr > 1"]],
            {"lr": "randn()"},
            NESTED,
        ),
    ]
).map(copy.deepcopy)
keys = st.sampled_from(
    [
        *(
            "confirms",
            "warm_start",
            "storage",
            "seed",
            "log",
            "brackets",
            "points",
            "configs",
        ),
        *(
            "seeds",
            "forbid",
            "points_to_evaluate",
            "epochs",
            "split",
            "time_budget_s",
            "origin",
        ),
        *("", "a.b", "\ud800", "x" * 1000),
    ]
)


@st.composite
def mutated(draw: st.DrawFn, document: Any) -> Any:
    """`document`, plain values, with one to three of its parts replaced, removed or added to."""
    changed = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 3))):
        *path, last = draw(st.sampled_from(list(_paths(changed))))
        node = changed
        for part in path:
            node = node[part]
        what = draw(st.sampled_from(["replace", "replace", "remove", "add"]))
        if what == "replace":
            node[last] = draw(values)
        elif what == "remove":
            del node[last]
        elif isinstance(node, dict):
            node[draw(keys)] = draw(values)
        else:
            node.append(draw(values))
        if not changed:
            break
    return changed


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    if len(path) < 8 and isinstance(value, dict | list):
        inner = value.items() if isinstance(value, dict) else enumerate(value)
        for key, part in inner:
            yield from _paths(part, (*path, key))
