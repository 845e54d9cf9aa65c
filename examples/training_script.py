"""A plain PyTorch script with arguments. Two lines make it a trial; alone it runs as before.

`{lr}` and `{batch_size}` in the command are the values that the search chooses. `model.pt` of
trial 00001 is in results/training_script/trials/00001/files/.

    $ tuner run --command 'python examples/training_script.py --lr {lr} --batch-size {batch_size}' \
        search.space.lr='loguniform(1e-3, 10)' search.space.batch_size='choice([16, 64])' \
        objective.metric=val_accuracy scheduler.max_t=9 scheduler.reduction_factor=3 \
        --num-samples 9
    training_script: completed in 57s
    9 trials: 3 completed, 6 stopped

    Best trial 00001, epoch 9 of 9, completed
      val_accuracy  0.9018
      val_loss      0.3556
    Its config
      lr            3.622
      batch_size    64

    Results      results/training_script
    Report       tuner report training_script
    TensorBoard  tuner tensorboard training_script
"""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn

import tuner  # the first of two lines

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--epochs", type=int, default=9)
args = parser.parse_args()

x, y = (torch.tensor(array) for array in load_digits(return_X_y=True))
x = x.float() / 16
torch.manual_seed(0)
model = nn.Linear(64, 10)
loss = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
for epoch in range(1, args.epochs + 1):
    for i in range(0, 1400, args.batch_size):
        optimizer.zero_grad()
        loss(model(x[i : i + args.batch_size]), y[i : i + args.batch_size]).backward()
        optimizer.step()
    with torch.no_grad():
        logits = model(x[1400:])
    val_loss = loss(logits, y[1400:]).item()
    val_accuracy = (logits.argmax(1) == y[1400:]).float().mean().item()
    print(f"epoch {epoch}: val_loss {val_loss:.4f}, val_accuracy {val_accuracy:.4f}")
    # The second
    tuner.report(val_loss=val_loss, val_accuracy=val_accuracy, epoch=epoch)
torch.save(model.state_dict(), "model.pt")
