"""A search with trials that may be stopped, on four simulated asynchronous workers.

An epoch takes about one unit of time. A worker that is free asks for the next config while the
other three are busy.
"""

import heapq

import numpy as np

WORKERS = 4


def simulate(searcher, rule, curve_of, *, epochs, budget, seed, typical):
    """The best whole trial's loss after each epoch spent, 1 to `budget`; before one: `typical`.

    curve_of(config): the losses of its `epochs` epochs. rule: `goes_on(trial_id, epoch, loss)`; if
    it has `begins`, that is called with each new trial's id and whole curve.
    """
    rng = np.random.default_rng((seed, 98))
    running = []
    losses = []
    asked = 0
    best = typical
    now = 0.0
    while len(losses) < budget:
        while len(running) < WORKERS:
            curve = tuple(curve_of(searcher.ask(asked)))
            if hasattr(rule, "begins"):
                rule.begins(str(asked), curve)
            heapq.heappush(running, (now + rng.lognormal(0, 0.2), asked, curve, 1))
            asked += 1
        now, number, curve, epoch = heapq.heappop(running)
        loss = float(curve[epoch - 1])
        if epoch == epochs and loss < best:
            best = loss
        losses.append(best)
        goes_on = rule.goes_on(str(number), epoch, loss)
        if epoch < epochs and goes_on:
            searcher.report(number, loss, epoch)
            heapq.heappush(
                running, (now + rng.lognormal(0, 0.2), number, curve, epoch + 1)
            )
        else:
            searcher.tell(number, loss, epoch)
    return losses
