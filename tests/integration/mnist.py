"""PyTorch's mnist example in its shape, on digits, which need no download; two lines report."""

import argparse

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn, optim

import tuner  # the first line that was added


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 3)
        self.fc1 = nn.Linear(144, 10)

    def forward(self, x):
        return F.log_softmax(self.fc1(torch.flatten(F.relu(self.conv1(x)), 1)), dim=1)


def train(args, model, train_loader, optimizer):
    model.train()
    for data, target in train_loader:
        optimizer.zero_grad()
        F.nll_loss(model(data), target).backward()
        optimizer.step()


def test(model, test_loader):
    model.eval()
    test_loss, count = 0, 0
    with torch.no_grad():
        for data, target in test_loader:
            test_loss += F.nll_loss(model(data), target, reduction="sum").item()
            count += len(target)
    return test_loss / count


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=14)
    parser.add_argument("--lr", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    x, y = load_digits(return_X_y=True)
    images = torch.tensor(x, dtype=torch.float32).view(-1, 1, 8, 8) / 16
    data = list(zip(images, y, strict=True))
    train_loader = torch.utils.data.DataLoader(data[:1400], args.batch_size, shuffle=True)
    test_loader = torch.utils.data.DataLoader(data[1400:], 397)
    model = Net()
    optimizer = optim.SGD(model.parameters(), lr=args.lr)
    for epoch in range(1, args.epochs + 1):
        train(args, model, train_loader, optimizer)
        val_loss = test(model, test_loader)
        print(f"Train Epoch: {epoch}\tLoss: {val_loss:.4f}")
        tuner.report(val_loss=val_loss, epoch=epoch)  # the second one
    torch.save(model.state_dict(), "mnist_cnn.pt")


if __name__ == "__main__":
    main()
