import torch
from torch import nn

from tuner.vision.norms import renew_statistics


def test_renew_statistics_is_the_mean_over_batches_of_the_named_layers_alone():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.BatchNorm2d(3, momentum=0.2), nn.BatchNorm2d(3), nn.Dropout(0.5)
    )
    batches = [torch.randn(4, 3, 2, 2) + shift for shift in (1.0, 2.0)]
    renew_statistics(model, ["0"], batches)
    means = torch.stack([batch.mean((0, 2, 3)) for batch in batches])
    assert torch.allclose(model[0].running_mean, means.mean(0), atol=1e-6)
    assert torch.equal(model[1].running_mean, torch.zeros(3))
    assert (model[0].momentum, model[1].momentum) == (0.2, 0.1)
    assert not any(module.training for module in model.modules())
