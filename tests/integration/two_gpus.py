"""`tuner` on a machine that seems to have two GPUs: torch and Ray count them, nobody uses them."""

import torch
from ray._private.accelerators.nvidia_gpu import NvidiaGPUAcceleratorManager as Nvidia

from tuner.cli.main import main

if __name__ == "__main__":
    torch.cuda.device_count = lambda: 2
    Nvidia.get_current_node_num_accelerators = staticmethod(lambda: 2)
    main()
