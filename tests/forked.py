"""Processes that begin with nothing but what they import, and that they have imported already.

They are forked from one that does nothing else, so that torch is imported once for all of them.
"""

import io
import multiprocessing
from contextlib import redirect_stdout

import torch

METHOD = "forkserver"
_IMPORTED = (
    *("torch._dynamo", "tuner.vision.image_classifier", "tuner.vision.pipeline"),
    *(
        "tuner.testing.searcher_contract",
        "tuner.search.searchers.mixed",
        "tuner.trial.memory",
    ),
)


def prepare():
    """Let the first process of `METHOD` import what most of them need."""
    multiprocessing.set_forkserver_preload([*_IMPORTED])


def run_to_exit(work, *arguments):
    """How a process of its own ends, in which `work`, a function of a module, runs."""
    prepare()
    process = multiprocessing.get_context(METHOD).Process(target=work, args=arguments)
    process.start()
    process.join()
    return process.exitcode


def said_by(work, *arguments):
    """What `work`, a function of a module, prints in a process of its own."""
    prepare()
    context = multiprocessing.get_context(METHOD)
    answer, end = context.Pipe(duplex=False)
    process = context.Process(target=_send_output, args=(end, work, *arguments))
    process.start()
    end.close()
    try:
        return answer.recv()
    finally:
        process.join()
        assert process.exitcode == 0


def _send_output(end, work, *arguments):
    torch.set_num_threads(1)  # other work shares the cores
    with redirect_stdout(io.StringIO()) as output:
        work(*arguments)
    end.send(output.getvalue())
