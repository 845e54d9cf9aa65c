"""A network of your own: `tuner` trains it, and the search chooses its arguments.

Replace `Net`. For your own images add `training.dataset=folder:photos` to the command, where
`photos` has a folder for each class. Then `tuner export`, `evaluate` and `predict` work as in the
README.

    $ tuner run examples/own_network.py
    own_network: completed in 26s
    9 trials: 5 completed, 4 stopped

    Best trial 00008, epoch 9 of 9, completed
      val_accuracy        0.9833  (new data: about 0.983, 0.964 to 0.992; baseline 0.1028)
      val_loss            0.07731
      test_loss           0.07759  (held-out test split)
      test_accuracy       0.9806  (held-out test split; baseline 0.1028)
    Its config
      lr                  0.3307
      model_args.width    32
      model_args.dropout  0.07533

    Results      results/own_network
    Report       tuner report own_network
    TensorBoard  tuner tensorboard own_network
"""

from torch import nn


class Net(nn.Module):
    def __init__(self, in_channels, num_classes, width=16, dropout=0.0):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(in_channels, width, 3, padding=1),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1),
            nn.BatchNorm2d(2 * width),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
        )
        self.head = nn.Sequential(
            nn.Flatten(), nn.Dropout(dropout), nn.Linear(8 * width, num_classes)
        )

    def forward(self, x):
        return self.head(self.features(x))


def experiment():
    return {
        "training": {"dataset": "digits", "model": "own_network:Net"},
        "search": {
            "space": {
                "lr": "loguniform(1e-2, 1)",
                "model_args": {
                    "width": "choice([8, 16, 32])",
                    "dropout": "uniform(0, 0.5)",
                },
            }
        },
        "objective": {"metric": "val_accuracy", "mode": "max"},
        "scheduler": {"max_t": 9, "reduction_factor": 3},
        "num_samples": 9,
    }
