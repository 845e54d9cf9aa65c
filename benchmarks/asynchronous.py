"""A search with trials that may be stopped, on four simulated asynchronous workers.

An epoch takes about one unit of time, or what its config takes. A worker that is free asks for the
next config while the other three are busy.
"""

import heapq

import numpy as np

WORKERS = 4


def simulate(searcher, rule, curve_of, *, epochs, budget, seed, typical, pace_of=None, ended=None):
    """The best whole trial's loss after each epoch spent, 1 to `budget`; before one: `typical`.

    curve_of(config): the losses of its `epochs` epochs. rule: `goes_on(trial_id, epoch, loss)`; if
    it has `begins`, that is called with each new trial's id and whole curve (an oracle's).
    pace_of(config): the time of an epoch. The losses are then those after each unit of time of a
    worker, of which there are `budget`, and a rule with `took` gets the time of each epoch.
    ended(number, now): called with each trial that ends, and the time in `budget`'s unit.
    """
    rng = np.random.default_rng((seed, 98))
    running, found, asked = [], [], 0
    best, now = typical, 0.0
    while len(found) < budget:
        while len(running) < WORKERS:
            config = searcher.ask(asked)
            curve, pace = tuple(curve_of(config)), pace_of(config) if pace_of else 1.0
            if hasattr(rule, "begins"):
                rule.begins(str(asked), curve)
            took = pace * rng.lognormal(0, 0.2)
            heapq.heappush(running, (now + took, asked, curve, 1, pace, took))
            asked += 1
        now, number, curve, epoch, pace, took = heapq.heappop(running)
        if pace_of:
            found += [best] * (min(int(now * WORKERS), budget) - len(found))
        loss = float(curve[epoch - 1])
        if epoch == epochs and loss < best:
            best = loss
        if not pace_of:
            found.append(best)
        elif hasattr(rule, "took"):
            rule.took(str(number), epoch, took)
        goes_on = rule.goes_on(str(number), epoch, loss)
        if epoch < epochs and goes_on:
            searcher.report(number, loss, epoch)
            took = pace * rng.lognormal(0, 0.2)
            heapq.heappush(running, (now + took, number, curve, epoch + 1, pace, took))
        else:
            searcher.tell(number, loss, epoch)
            if ended:
                ended(number, now * WORKERS)
    return found
