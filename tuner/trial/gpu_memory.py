"""The limit of the GPU memory that a trial's process may take."""

from __future__ import annotations

import os

from tuner.trial.gpus import VISIBLE

# What CUDA itself takes of a GPU for each process: its context and the kernels that it loads.
# torch's own limit does not count it.
CONTEXT_BYTES = 512 << 20


class NoGpuError(RuntimeError):
    """A GPU was reserved, and there is none, or too little of it."""


def claim_gpu(gpus: float, *, through_torch: bool) -> None:
    """Limit this process to the share of the GPU that it has reserved.

    gpus: a share below 1, or whole GPUs, which need no limit. through_torch: whether only torch
    uses them; otherwise a torch that is built for CPUs says nothing about them. Raises NoGpuError
    if they cannot be used. A share that is too small for CUDA raises it once torch uses the GPU.
    """
    if not gpus:
        return
    import torch

    if not torch.cuda.is_available():
        built_for = torch.version.cuda or torch.version.hip
        if through_torch or built_for:
            visible = os.environ.get(VISIBLE, "not set")
            raise NoGpuError(
                f"this trial reserved a GPU (resources.gpus: {gpus:g}), but its process finds "
                f"none: torch {torch.__version__} is built for {built_for or 'CPUs'}, and "
                f"{VISIBLE} is {visible!r}"
            )
    elif gpus < 1:
        from tuner.trial.torch_compat import run_at_cuda_start

        def limit() -> None:
            total = torch.cuda.get_device_properties(0).total_memory
            torch.cuda.set_per_process_memory_fraction(
                compute_memory_share(gpus, total), 0
            )

        run_at_cuda_start(limit)


def compute_memory_share(share: float, total: int) -> float:
    """The part of a GPU of `total` bytes that torch may take in a process that has `share` of it.

    All processes together then have room for CUDA's own memory, too. Raises NoGpuError where
    nothing is left.
    """
    left = share * total - CONTEXT_BYTES
    if left <= 0:
        raise NoGpuError(
            f"resources.gpus: {share:g} of this GPU is {share * total / 2**20:.0f} MiB, and CUDA "
            f"itself takes about {CONTEXT_BYTES >> 20} MiB of it for each process"
        )
    return left / total
