"""Freeze-thaw, simulated: trials pause at every milestone, and the most promising one goes on.

After Swersky, Snoek and Adams, "Freeze-Thaw Bayesian Optimization" (2014), with the curves' model
and the measure that `--scheduler forecast` stops by: the chance to end better than the best other
trial, for each epoch that is left. A free worker goes on with the paused trial of the largest such
chance, or begins a new one where that of a trial that has just begun is larger. No trial is given
up for good.
"""

# N trials, K milestones

import heapq
from dataclasses import dataclass

import numpy as np

from benchmarks.asynchronous import WORKERS
from tuner.search.curves import CurveModel, milestones

MOST = 300  # trials that the model is given: the latest, and those that came furthest
PEERS = 3  # others that must have reported before a paused trial can be chosen over a new one


@dataclass
class Frozen:
    """A trial that has trained up to the milestone of index `came - 1`."""

    number: int
    curve: tuple
    came: int = 0


class Pool:
    """The trials that have come to a milestone, and the choice among those that are paused."""

    def __init__(self, epochs):
        self.epochs = milestones(epochs)
        self.trials, self.paused = {}, set()

    def choose(self):
        """The trial to go on with; None: a new one."""
        if len(self.trials) <= PEERS or not self.paused:
            return None
        by_depth = sorted(self.trials, key=lambda n: -self.trials[n].came)
        numbers = list(dict.fromkeys([*list(self.trials)[-MOST // 2 :], *by_depth[: MOST // 2]]))
        model = CurveModel(self._table(numbers))
        ends = model.ends()
        first, second = np.argsort(ends.mean_N)[:2]
        best = ends.mean_N[first], ends.sd_N[first]
        chance_N = ends.chances(*best)
        chance_N[first] = ends.chances(ends.mean_N[second], ends.sd_N[second])[first]
        rate = {
            number: chance / (1 - self.epochs[self.trials[number].came - 1] / self.epochs[-1])
            for number, chance in zip(numbers, chance_N, strict=True)
            if number in self.paused
        }
        most = max(rate, key=rate.get, default=None)
        of_new = model.ends_of_new().chances(*best).mean()
        return None if most is None or rate[most] < of_new else self.trials[most]

    def _table(self, numbers):
        loss_NK = np.full((len(numbers), len(self.epochs)), np.nan)
        for row, trial in zip(loss_NK, map(self.trials.get, numbers), strict=True):
            row[: trial.came] = [trial.curve[epoch - 1] for epoch in self.epochs[: trial.came]]
        return loss_NK

    def pause(self, trial):
        """Take in that the trial has come to its next milestone."""
        trial.came += 1
        self.trials[trial.number] = trial
        if trial.came < len(self.epochs):
            self.paused.add(trial.number)


def simulate(searcher, curve_of, *, epochs, budget, seed, typical):
    """As `benchmarks.asynchronous.simulate`, but trials pause instead of being stopped."""
    rng = np.random.default_rng((seed, 98))
    pool, running, found, asked = Pool(epochs), [], [], 0
    best, now = typical, 0.0
    while len(found) < budget:
        while len(running) < WORKERS:
            trial = pool.choose()
            if trial is None:
                trial = Frozen(asked, tuple(curve_of(searcher.ask(asked))))
                asked += 1
            else:
                pool.paused.remove(trial.number)
                searcher.go_on(trial.number)
            epoch = pool.epochs[trial.came - 1] + 1 if trial.came else 1
            heapq.heappush(running, (now + rng.lognormal(0, 0.2), trial.number, epoch, trial))
        now, number, epoch, trial = heapq.heappop(running)
        loss = float(trial.curve[epoch - 1])
        if epoch == epochs:
            best = min(best, loss)
        found.append(best)
        if epoch == pool.epochs[trial.came]:
            pool.pause(trial)
            searcher.tell(number, loss, epoch)
        else:
            searcher.report(number, loss, epoch)
            heapq.heappush(running, (now + rng.lognormal(0, 0.2), number, epoch + 1, trial))
    return found
