"""How well strategies learn where a limit runs (`objective.limits`).

    python -m benchmarks.limits             20 searches a row, some minutes of a core
    python -m benchmarks.limits --seeds 2   a small run: shows that it works

Each task has its optimum beyond the limit. `within`: the share of the last 20 of 40 configs that
keep it. regret: the best loss within the limit less the least there is, as a ratio to random
search's; the median.
"""

import argparse
from dataclasses import dataclass

import numpy as np

from tuner.spec.sections import Objective
from tuner.spec.strategies import SEARCHERS

TRIALS, LAST = 40, 20
SPACE = {"x": "uniform(0, 1)", "y": "uniform(0, 1)"}


@dataclass(frozen=True)
class Task:
    """Distance from (0.9, 0.3), squared. least: its least value within the `limit` on `size`."""

    name: str
    size: object
    limit: float
    least: float

    def search(self, strategy, seed):
        """(share of the last configs within the limit, the best loss within it)."""
        objective = Objective(metric="loss", mode="min", limits=(f"size <= {self.limit}",))
        settings = SEARCHERS.settings(strategy)(strategy=strategy, space=SPACE)
        searcher, within, best = settings.build(seed, objective=objective), [], np.inf
        for number in range(TRIALS):
            config = searcher.suggest(f"{number:05}")
            loss, size = (config["x"] - 0.9) ** 2 + (config["y"] - 0.3) ** 2, self.size(config)
            result = {"loss": loss, "size": size, "training_iteration": 1}
            searcher.on_trial_complete(f"{number:05}", result)
            within.append(size <= self.limit)
            best = min(best, loss) if within[-1] else best
        return np.mean(within[-LAST:]), best


TASKS = (
    Task("half of the space within", lambda c: c["x"], 0.5, 0.16),
    Task("an eighth of it", lambda c: c["x"] + c["y"], 0.5, 0.245),
)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    seeds = parser.parse_args().seeds
    print("| task | strategy | within | regret |\n|---|---|---|---|")
    for task in TASKS:
        base = None
        for strategy in ("random", "bayesopt", "hyperopt", "bohb"):
            measured = np.array([task.search(strategy, seed) for seed in range(seeds)])
            share, regret = measured[:, 0].mean(), np.median(measured[:, 1]) - task.least
            base = base or regret
            print(f"| {task.name} | {strategy} | {share:.2f} | {regret / base:.2f} |", flush=True)


if __name__ == "__main__":
    main()
