"""A ViT as torch.export left it, trained on images that are tensors: bright on the left, or on the right.

Usage: python examples/vit_on_images.py MODEL.pt2
"""

import sys

import numpy

import hyc

random = numpy.random.default_rng(0)
job = hyc.compile(sys.argv[1], dp=2, micro_batch=8, lr=3e-3, optimizer="adamw")
images = random.normal(size=(256, 3, 16, 16)).astype("float32")
labels = random.integers(0, 2, size=256)
for image, label in zip(images, labels):
    image[:, :, 8 * label : 8 * label + 8] += 1

run = job.train({"pixel_values": images, "labels": labels}, steps=96, seed=1)
print(f"loss {run.losses[0]:.3f} to {run.losses[-1]:.3f}, {run.steps[-1].samples_per_s:.0f} samples/s")
assert run.losses[-1] < 0.3
