"""Steps of the list whose faults are of processes: ranks, shares of a GPU, whole searches."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from benchmarks.gpu import NAME, register
from tuner.spec.sections import Objective, Resources, Timeouts
from tuner.trial.context import Assignment, TrialContext
from tuner.trial.failures import build_failure
from tuner.trial.gpu_memory import claim_gpu
from tuner.trial.worker import Worker
from tuner.vision import replica
from tuner.vision.image_classifier import ImageClassifier

RECIPE = {
    "model": "cnn",
    "dtype": "float64",
    "dataset": NAME,
    "batch_size": 32,
    "epochs": 2,
}
AS_EQUAL = 1e-9
QUARTER = 0.25
PROCESSES = 4
TUNER = [sys.executable, "-m", "tuner"]


def two_ranks(device, dry):
    """Two ranks on one device over gloo, as one process; one that runs out in its second step.

    NCCL takes one rank a GPU. On a CPU norms are of groups, since BatchNorm there is each rank's.
    """
    register(quick=True)
    recipe = {**RECIPE, "norm": "batch" if device == "cuda" else "group"}
    alone = ImageClassifier({}, recipe, device=device)
    for _ in range(2):
        alone.step()
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(rank_of_two, (device, recipe, folder), nprocs=2)
        found = [
            torch.load(f"{folder}/{rank}.pt", weights_only=True) for rank in range(2)
        ]
    weights = alone.state_dict()["model"]
    for rank, (model, _) in enumerate(found):
        largest = max(
            float((model[name] - weights[name]).abs().max()) for name in weights
        )
        yield f"rank {rank}: largest difference from one process", f"{largest:.1e}"
        if not largest <= AS_EQUAL:
            raise SystemExit(f"weights differ by {largest}")
    sizes = [size for _, size in found]
    yield "micro-batches of both after one ran out in step 2", str(sizes)
    if len(set(sizes)) != 1 or sizes[0] >= recipe["batch_size"] // 2:
        raise SystemExit("they have not agreed on a smaller one")


def rank_of_two(rank, device, recipe, folder):
    """Saves the weights after two epochs, and the micro-batch after running out of memory."""
    replica.OVERLAPPING = ("cuda", "cpu")  # rehearse on the CPU, too
    register(quick=True)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/met", rank=rank, world_size=2
    )
    place = {"device": device, "rank": rank, "world_size": 2}
    made, short = (ImageClassifier({}, recipe, **place) for _ in range(2))
    for _ in range(2):
        made.step()
    if rank == 1:
        run_out_in_step_2(short)
    sizes = [short.step()["micro_batch_size"] for _ in range(2)]
    torch.save((made.state_dict()["model"], int(sizes[-1])), f"{folder}/{rank}.pt")
    dist.destroy_process_group()


def run_out_in_step_2(made):
    """From its second step on, have more than 4 images run out of memory in the last layer."""
    passes = []

    def refuse(module, inputs):
        passes.append(len(inputs[0]))
        # A rehearsal and a step, and then the rehearsal of the second step
        if module.training and len(passes) > 2 and passes[-1] > 4:
            raise torch.OutOfMemoryError("CUDA out of memory.")

    list(made.model.modules())[-1].register_forward_pre_hook(refuse)


class Asserts:
    """A Learner that spoils its device."""

    def __init__(self, config, constants, *, device, rank, world_size):
        self.device = device

    def step(self):
        if self.device.type == "cpu":
            raise RuntimeError("CUDA error: device-side assert triggered")
        beyond = torch.full((1,), 5, device=self.device)
        return {"value": float(torch.zeros(1, device=self.device)[beyond].sum())}

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


def faults(device, dry):
    """A spoilt device, a greedy process among four, and a GPU that is hidden."""
    gpus = 1 if device == "cuda" else 0
    with tempfile.TemporaryDirectory() as folder:
        worker = Worker(context(folder, gpus))
        worker.begin(Assignment("00000", {}))
        try:
            worker.step()
        except RuntimeError as error:
            yield (
                "device-side assert: is the process spoilt",
                str(build_failure(error).poisoned),
            )
        reason = worker.end()
        yield "what its end says", str(reason)
    with mp.get_context("spawn").Pool(PROCESSES) as pool:
        shares = pool.starmap(
            take, [(device, number == 0) for number in range(PROCESSES)]
        )
    yield "four processes at a quarter, the first greedy", "; ".join(shares)
    hidden = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    code = (
        "from tuner.trial.gpu_memory import claim_gpu; claim_gpu(1, through_torch=True)"
    )
    said = subprocess.run(
        [sys.executable, "-c", code],
        env=hidden,
        capture_output=True,
        text=True,
        check=False,
    )
    yield "a GPU that is reserved and hidden", said.stderr.strip().splitlines()[-1]
    if not said.returncode or (device == "cuda" and reason is None):
        raise SystemExit("a spoilt device, or one that is hidden, was not noticed")


def context(folder, gpus):
    """A trial of `Asserts`, of one rank."""
    return TrialContext(
        location=folder,
        trainable="benchmarks.gpu_list.processes:Asserts",
        constants={"seed": 0, "epochs": 1},
        objective=Objective(metric="value"),
        epochs=1,
        resources=Resources(gpus=gpus),
        timeouts=Timeouts(),
        sys_path=(),
        directory=os.getcwd(),
    )


def take(device, greedy):
    """Take memory, all that there is or a little of it; how much it came to."""
    kept = []
    most = 1 << 40 if greedy and device == "cuda" else 256 << 20
    if device == "cuda":
        claim_gpu(QUARTER, through_torch=True)
    try:
        while sum(map(len, kept)) < most:
            kept.append(torch.ones(64 << 20, dtype=torch.uint8, device=device))
    except torch.OutOfMemoryError:
        pass
    taken = sum(map(len, kept)) >> 20
    time.sleep(2)  # while the others take theirs
    return f"{'greedy ' if greedy else ''}{taken:,} MiB"


def search(device, dry):
    """`tuner run` with four trials at once on one GPU, and the processes that hold it meanwhile."""
    given = ["--num-samples", "2" if dry else "8", "scheduler.max_t=2", "--no-evaluate"]
    if device == "cuda":
        given += ["--gpus", str(QUARTER), "--max-concurrent", str(PROCESSES)]
    with tempfile.TemporaryDirectory() as folder:
        yield from watched(["run", "digits", "--storage", folder, *given], device)


def queue(device, dry):
    """Two searches of a queue, each with a Ray of its own, whose trials share one GPU."""
    given = ["--num-samples", "2" if dry else "6", "scheduler.max_t=2"]
    if device == "cuda":
        given += ["--gpus", str(QUARTER)]
    with tempfile.TemporaryDirectory() as folder:
        storage = ["--storage", folder]
        for user in ("ann", "bob"):
            of_user = ["--name", user, "--user", user, *storage]
            subprocess.run(
                [*TUNER, "queue", "add", "digits", *of_user, *given], check=True
            )
        yield from watched(["queue", "run", "--at-once", "2", *storage], device)


def watched(arguments, device):
    """Rows on one command of tuner: its exit code, and the processes that hold the GPU meanwhile.

    Raises SystemExit with its code where it fails.
    """
    process = subprocess.Popen([*TUNER, *arguments])
    holders = set()
    most = 0
    while process.poll() is None:
        now = holding() if device == "cuda" else set()
        holders = holders | now
        most = max(most, len(now))
        time.sleep(0.5)
    yield "exit code", str(process.returncode)
    yield "processes that held the GPU at once, at most", str(most)
    yield (
        "what they are called",
        ", ".join(sorted({name for _, name in holders})) or "none",
    )
    if process.returncode:
        raise SystemExit(process.returncode)


def holding():
    """(pid, name) of the processes on the GPU, as the driver has them."""
    query = ["nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader"]
    said = subprocess.run(
        query, capture_output=True, text=True, check=False
    ).stdout.split()
    return {(pid, name_of(Path("/proc") / pid / "cmdline")) for pid in said}


def name_of(command):
    try:
        return (
            command.read_bytes().split(b"\0")[0].decode(errors="replace")[:40]
            or "unknown"
        )
    except OSError:  # it has ended, or is of another container
        return "unknown"
