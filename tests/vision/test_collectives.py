import pytest
import torch
from torch import nn

from tuner.vision.collectives import Ranks

CPU = torch.device("cpu")


DTYPES = (
    *("bool", "uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
    *(
        "float16",
        "bfloat16",
        "float32",
        "float64",
        "complex64",
        "float8_e4m3fn",
        "float8_e5m2",
    ),
)


def build_buffers(rank):
    """Each holds ones on rank 0, and zeros on rank 1."""
    buffer = torch.full((4, 6), 1.0 - rank)
    return {
        **{f"in_{dtype}": buffer[0, :3].to(getattr(torch, dtype)) for dtype in DTYPES},
        "sliced": buffer.clone()[:, ::2],
        "transposed": buffer.clone().T,
        "expanded": buffer[:1, :1].clone().expand(300, 2),
        "expanded_and_sliced": buffer.clone()[:, None, ::3].expand(4, 5, 2),
        "channels_last": buffer.clone()
        .view(1, 2, 3, 4)
        .to(memory_format=torch.channels_last),
        "number": buffer[0, 0].clone(),
        "empty": torch.empty(0),
    }


def build_model(buffers):
    model = nn.Linear(1, 1)
    for name, buffer in buffers.items():
        model.register_buffer(name, buffer)
    return model


def shared_buffers(rank):
    buffers = build_buffers(rank)
    beside = torch.full((4, 4), 1.0 - rank)
    model = build_model({**buffers, "part": beside[:, ::2]})
    Ranks(rank, 2, CPU).broadcast(model.buffers())
    assert all(
        buffer is dict(model.named_buffers())[name] for name, buffer in buffers.items()
    )
    return {
        **{name: tensor.clone() for name, tensor in buffers.items()},
        "beside": beside,
    }


def wrapped_with_buffers(rank):
    """What trains begins with rank 0's tensors."""
    model = build_model(build_buffers(rank))
    model.register_buffer("unsaved", torch.full((1,), 1.0 - rank), persistent=False)
    nn.init.constant_(model.weight, 1.0 - rank)
    Ranks(rank, 2, CPU).wrap_module(model, model, may_skip=False)(
        torch.ones(1, 1)
    ).sum().backward()
    return [model.in_int16, model.unsaved, model.weight.detach()]


def averaged(rank):
    """Parameters that both ranks, rank 1, and none have used, some in other types."""
    dtypes = (
        torch.float64,
        torch.float32,
        torch.float64,
        torch.float32,
        torch.complex64,
    )
    parameters = [nn.Parameter(torch.zeros(2, dtype=dtype)) for dtype in dtypes]
    both, second, none, empty, turned = parameters
    empty.data = empty.data[:0]
    both.grad = torch.full_like(both, 1.0 + rank)
    turned.grad = torch.full_like(turned, 1j * rank)
    if rank == 1:
        second.grad = torch.full_like(second, 6.0)
        empty.grad = torch.empty_like(empty)
    Ranks(rank, 2, CPU).average_gradients(parameters)
    assert none.grad is None
    return [p.grad for p in (both, second, empty, turned)]


@pytest.fixture(scope="module")
def results(group):
    cases = (shared_buffers, wrapped_with_buffers, averaged)
    return group.run({case.__name__: case for case in cases})


def test_broadcast_gives_all_ranks_the_tensors_of_rank_0(results):
    first, second = (result["shared_buffers"] for result in results)
    for name, buffer in build_buffers(0).items():
        for result in (first, second):
            assert torch.equal(result[name].reshape(-1), buffer.reshape(-1)), name
    assert second["beside"].tolist() == [[1.0, 0.0] * 2] * 4


def test_wrapped_begins_with_the_tensors_of_rank_0(results):
    for result in results:
        assert all((tensor == 1).all() for tensor in result["wrapped_with_buffers"])


def test_average_gradients_leaves_out_what_no_rank_has_used(results):
    for result in results:
        both, second, empty, turned = result["averaged"]
        assert both.tolist() == [1.5, 1.5]
        assert second.tolist() == [3.0, 3.0]
        assert empty.tolist() == []
        assert turned.tolist() == [0.5j, 0.5j]
