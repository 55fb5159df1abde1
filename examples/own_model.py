"""A model of one's own, trained on four native ranks, and its weights back in the module.

Usage: python examples/own_model.py
"""

import torch

import hyc


class Classifier(torch.nn.Module):
    """Points of the plane: inside of a ring, or outside."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(2, width),
            torch.nn.GELU(),
            torch.nn.Linear(width, width),
            torch.nn.GELU(),
            torch.nn.Linear(width, 2),
        )

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        """[batch, 2] to scores [batch, 2]."""
        return self.layers(points)


def accuracy(model: torch.nn.Module, points: torch.Tensor, classes: torch.Tensor) -> float:
    with torch.no_grad():
        return (model(points).argmax(-1) == classes).float().mean().item()


torch.manual_seed(0)
points = torch.rand(2048, 2) * 2 - 1
classes = ((points.norm(dim=1) > 0.4) & (points.norm(dim=1) < 0.8)).long()
model = Classifier()

job = hyc.compile(model, points[:1], tp=2, dp=2, micro_batch=64, zero=1, optimizer="adamw", lr=5e-3)
print(job.plan)
print(job.memory)

before = accuracy(model, points, classes)
run = job.train(torch.utils.data.TensorDataset(points, classes), steps=200, seed=1)
model.load_state_dict(run.state_dict())
after = accuracy(model, points, classes)
print(f"loss {run.losses[0]:.4f} to {run.losses[-1]:.4f}, accuracy {before:.2f} to {after:.2f}")
assert after > 0.9
