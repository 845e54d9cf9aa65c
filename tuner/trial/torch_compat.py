"""All that touches what torch does not document, or what it sets for the whole process.

Each piece was tried with torch 2.13 and says why it is there and what is lost without it. What is
changed in torch is put back, so that the next trial of the process finds torch as it was.
"""

from __future__ import annotations

import inspect
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import IO, Any, cast

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer
from torch.utils.data import dataloader

# Times that a piece of code is compiled, over all models of a process
_RECOMPILED = 256
# Of torch's compiler, as they were before `compiled` raised them
_limits: dict[str, int] = {}
_DISABLED = "__dynamo_disable"  # see torch/_compile.py


@contextmanager
def bypass_compiler() -> Iterator[None]:
    """Let optimizers that `build_eager_class` made step without importing torch's compiler.

    Some methods of Optimizer import it, when first called, to tell it not to compile them, and
    remember the answer in an attribute. Code that is not compiled needs no more than the method
    itself as the answer. Without this the first trial of a process takes 1.2 CPU seconds longer.
    """
    methods = [
        getattr(method, "__wrapped__", None) for method in vars(Optimizer).values()
    ]
    patched = [m for m in methods if m is not None and not hasattr(m, _DISABLED)]
    for method in patched:
        setattr(method, _DISABLED, method)
    try:
        yield
    finally:
        for method in patched:
            delattr(method, _DISABLED)


@contextmanager
def use_single_thread() -> Iterator[None]:
    """Within it torch computes with one thread.

    For many small steps: on a busy machine each of them would wait for the slowest thread.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@cache
def build_eager_class(kind: Any) -> Any:
    """The optimizer `kind` with a `step` that does not import torch's compiler.

    The decorator of `step` imports it in every case, to break the graph of a compiled function.
    See `bypass_compiler`. Not for training steps that are compiled.
    """
    return type(
        kind.__name__, (kind,), {"step": torch.no_grad()(inspect.unwrap(kind.step))}
    )


@contextmanager
def set_numerics(*, tf32: bool, tries_convolutions: bool) -> Iterator[None]:
    """Within it CUDA may, or may not, round inputs of float32 products to 10 bits of mantissa.

    tries_convolutions: whether cuDNN tries its algorithms for each new shape of a convolution, and
    takes the best. It remembers them for the whole process. Not with deterministic algorithms.
    """
    matmul: Any = torch.backends.cuda.matmul
    cudnn: Any = torch.backends.cudnn
    put_back = remember_numerics()
    try:
        if _read_older_precision():
            # It sets the newer, too, and libraries still read it
            matmul.allow_tf32 = cudnn.allow_tf32 = tf32
        else:
            for part in (matmul, cudnn.conv, cudnn.rnn):
                part.fp32_precision = "tf32" if tf32 else "ieee"
        if tries_convolutions:
            exact = cudnn.deterministic or torch.are_deterministic_algorithms_enabled()
            cudnn.benchmark = not exact
        yield
    finally:
        put_back()


def remember_numerics() -> Callable[[], None]:
    """Note how this process computes; returns a function that puts that back.

    It covers the default dtype, the precision of products, cuDNN's choice of algorithms, and
    determinism. Without it a trial whose code sets one of them sets it for the next trial too.
    """
    matmul = torch.backends.cuda.matmul
    cudnn = torch.backends.cudnn
    dtype = torch.get_default_dtype()
    determinism = _read_determinism()
    choice = (cudnn.benchmark, cudnn.deterministic)
    older = _read_older_precision()
    owners: tuple[Any, ...] = (torch.backends, matmul, cudnn, torch.backends.mkldnn)
    parts = [
        getattr(o, name, None) for o in owners for name in ("matmul", "conv", "rnn")
    ]
    newer = [
        (o, o.fp32_precision) for o in (*owners, *parts) if hasattr(o, "fp32_precision")
    ]

    def put_back() -> None:
        torch.set_default_dtype(dtype)
        if _read_determinism() != determinism:
            # To set it imports torch's compiler, over a second
            torch.use_deterministic_algorithms(determinism[0], warn_only=determinism[1])
        cudnn.benchmark, cudnn.deterministic = choice
        if older is not None:  # first, since they set what has a newer name as well
            matmul.allow_tf32, cudnn.allow_tf32, products = older
            torch.set_float32_matmul_precision(products)
        for owner, value in newer:
            owner.fp32_precision = value

    return put_back


def _read_older_precision() -> tuple[bool, bool, str] | None:
    """The precision of products by the names that it had before torch 2.9, or None.

    Once a newer name was set to something else, the older can be neither read nor trusted.
    """
    matmul = torch.backends.cuda.matmul
    cudnn = torch.backends.cudnn
    with suppress(RuntimeError):
        return matmul.allow_tf32, cudnn.allow_tf32, torch.get_float32_matmul_precision()
    return None


def _read_determinism() -> tuple[bool, bool]:
    """Whether torch refuses nondeterministic algorithms, and whether it only warns of them."""
    warns = torch.is_deterministic_algorithms_warn_only_enabled()
    return torch.are_deterministic_algorithms_enabled(), warns


def copy_all(targets: list[Tensor], sources: list[Tensor]) -> None:
    """Copy each source to its target, those of one dtype in a single call.

    torch documents only the arithmetic `_foreach` functions. Without it a GPU starts a kernel for
    every buffer of BatchNorm at every step.
    """
    for dtype in {target.dtype for target in targets}:
        pairs = [p for p in zip(targets, sources, strict=True) if p[0].dtype == dtype]
        torch._foreach_copy_(
            [target for target, _ in pairs], [source for _, source in pairs]
        )


def find_cpu_precisions() -> tuple[bool, bool]:
    """Whether this machine's CPU computes in bf16, and in fp16, natively.

    torch has no public way to ask. Without it either would be tried where it is only emulated,
    slower than float32.
    """
    bf16 = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return bf16, torch.cpu._is_amx_fp16_supported()


def run_at_cuda_start(work: Callable[[], None]) -> None:
    """Do `work` once this process begins to use CUDA; at once where it has.

    torch itself seeds its generators so. To ask for it would begin it, which takes half a GB of the
    GPU, also where a trial never uses it, or not through torch.
    """
    torch.cuda._lazy_call(work)


def measure_loading_s() -> float:
    """The seconds that this process has waited for torch's DataLoaders, since the first call.

    Their iterators say so to the profiler alone, so the method that waits is wrapped; 0 without it.
    """
    iterator: Any = getattr(dataloader, "_BaseDataLoaderIter", None)
    if iterator is None:
        return 0.0
    if not hasattr(iterator, "waited_s"):
        following = iterator.__next__
        iterator.waited_s = 0.0

        def timed(self: Any) -> Any:
            began = time.perf_counter()
            try:
                return following(self)
            finally:
                iterator.waited_s += time.perf_counter() - began

        iterator.__next__ = timed
    return float(iterator.waited_s)


def wrap_data_parallel(
    module: nn.Module, device: torch.device, *, may_skip: bool
) -> DistributedDataParallel:
    """`module` with its gradients averaged over the ranks; its tensors are left alone.

    may_skip: whether a step may leave out parameters. The ranks' parameters and buffers must be
    equal: torch would share them, but gloo has not all of their types. No training step reads
    BatchNorm's buffers, so it is enough to share them once an epoch. torch 2.13 renamed the
    argument that says so.
    """
    known = inspect.signature(DistributedDataParallel.__init__).parameters
    name = (
        "forward_sync_buffers"
        if "forward_sync_buffers" in known
        else "broadcast_buffers"
    )
    options: dict[str, Any] = {
        name: False,
        "init_sync": False,
        "find_unused_parameters": may_skip,
    }
    devices = [device] if device.type == "cuda" else None
    return DistributedDataParallel(module, device_ids=devices, **options)


class Compiled(nn.Module):
    """`module`, compiled for the shape of the first input after `anew`; other shapes run eagerly.

    So the last batch of an epoch, which mostly has another size, compiles nothing again.
    DistributedDataParallel goes around this, not into what is compiled: torch 2.13 compiles almost
    no part of a Sequential within it.

    torch counts per piece of code how often it was compiled, over all models of a process. Beyond
    its limit of 8 it silently runs it as it is: one network in a ninth width, say. The limit is a
    guard against code that never ceases to be compiled, which one shape a network cannot be.
    """

    def __init__(self, module: nn.Module) -> None:
        from torch._dynamo import config

        super().__init__()
        _limits.setdefault("recompile_limit", config.recompile_limit)
        config.recompile_limit = max(config.recompile_limit, _RECOMPILED)
        self._as_it_is = module
        # Not a module of this one once more
        self._compiled: tuple[Any] = (torch.compile(module),)
        self.reset()

    def reset(self) -> None:
        """Compile for the shape of the next input."""
        self._shape: torch.Size | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self._shape is None:
            self._shape = x.shape
        network = self._compiled[0] if x.shape == self._shape else self._as_it_is
        return cast(Tensor, network(x))


def clear_compiled() -> None:
    """Drop what this process has compiled, and torch's counts of it.

    Without it the next trials' networks count with those of the trials before, and all of them
    stay in memory.
    """
    if "torch._dynamo" in sys.modules:
        torch.compiler.reset()
        for name, value in _limits.items():
            setattr(torch._dynamo.config, name, value)
        _limits.clear()


def save(state: object, file: IO[bytes]) -> None:
    """`torch.save`, but what the disk refuses is raised as the OSError that it is.

    torch raises a RuntimeError about its archive instead, which does not say that the disk is full.
    """
    try:
        torch.save(state, file)
    except RuntimeError as error:
        if isinstance(error.__context__, OSError):
            raise error.__context__ from None
        raise
