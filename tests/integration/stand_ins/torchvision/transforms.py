"""The made-up images are tensors already."""


class _Nothing:
    def __init__(self, *how):
        pass

    def __call__(self, image):
        return image


Compose = ToTensor = Normalize = _Nothing
