"""Images of noise, as many as the examples look at."""

import torch


class _Noise(torch.utils.data.Dataset):
    shape = (1, 28, 28)
    count = 512

    def __init__(self, *arguments, **options):
        generator = torch.Generator().manual_seed(0)
        self.images = torch.rand(self.count, *self.shape, generator=generator)

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return self.images[index], index % 10


class MNIST(_Noise):
    pass


class FakeData(_Noise):
    shape = (3, 32, 32)
    count = 64


CIFAR10 = FakeData
