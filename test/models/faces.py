"""MTCNN: three small networks that find faces in a picture, and what is between them.

The first looks at every place of a pyramid of pictures, the second and third at the squares that
are left, each correcting them.  Boxes are rows of left, top, right, bottom, score (Zhang et al.,
Joint Face Detection and Alignment using Multitask Cascaded Convolutional Networks, 2016).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

SMALLEST, FACTOR = 40, 0.709
"""The side of the smallest face in pixels, and the ratio of the pyramid's pictures."""
THRESHOLDS = (0.6, 0.7, 0.7)

Net = Callable[[Tensor], tuple[Tensor, ...]]


class _Stage(nn.Module):
    """Convolutions, each with a PReLU and perhaps a pool, under the names that the files use."""

    def __init__(self, convs: list[tuple[int, int, int]], pools: list[int]):
        super().__init__()
        for i, (inputs, outputs, size) in enumerate(convs, 1):
            self.add_module(f"conv{i}", nn.Conv2d(inputs, outputs, size))
            self.add_module(f"prelu{i}", nn.PReLU(outputs))
        self.pools, self.depth = pools, len(convs)

    def features(self, x: Tensor) -> Tensor:
        for i in range(1, self.depth + 1):
            x = self.get_submodule(f"prelu{i}")(self.get_submodule(f"conv{i}")(x))
            if i <= len(self.pools):
                x = F.max_pool2d(x, self.pools[i - 1], 2, ceil_mode=True)
        return x


class Proposal(_Stage):
    """(corrections [n, 4, h, w], probability of a face [n, 2, h, w]) of 12 x 12 windows."""

    def __init__(self):
        super().__init__([(3, 10, 3), (10, 16, 3), (16, 32, 3)], [2])
        self.conv4_1, self.conv4_2 = nn.Conv2d(32, 2, 1), nn.Conv2d(32, 4, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.features(x)
        return self.conv4_2(x), torch.softmax(self.conv4_1(x), 1)


class Refinement(_Stage):
    """(corrections [n, 4], probability of a face [n, 2]) of pictures of 24 x 24."""

    def __init__(self):
        super().__init__([(3, 28, 3), (28, 48, 3), (48, 64, 2)], [3, 3])
        self.dense4, self.prelu4 = nn.Linear(576, 128), nn.PReLU(128)
        self.dense5_1, self.dense5_2 = nn.Linear(128, 2), nn.Linear(128, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.features(x).permute(0, 3, 2, 1).flatten(1)
        x = self.prelu4(self.dense4(x))
        return self.dense5_2(x), torch.softmax(self.dense5_1(x), 1)


class Output(_Stage):
    """(corrections [n, 4], landmarks [n, 10], probability [n, 2]) of pictures of 48 x 48."""

    def __init__(self):
        super().__init__([(3, 32, 3), (32, 64, 3), (64, 64, 3), (64, 128, 2)], [3, 3, 2])
        self.dense5, self.prelu5 = nn.Linear(1152, 256), nn.PReLU(256)
        self.dense6_1, self.dense6_2, self.dense6_3 = (nn.Linear(256, n) for n in (2, 4, 10))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x = self.features(x).permute(0, 3, 2, 1).flatten(1)
        x = self.prelu5(self.dense5(x))
        return self.dense6_2(x), self.dense6_3(x), torch.softmax(self.dense6_1(x), 1)


def load(folder: Path) -> tuple[Proposal, Refinement, Output]:
    nets = (Proposal(), Refinement(), Output())
    for net, name in zip(nets, "pro", strict=True):
        net.load_state_dict(torch.load(folder / f"{name}net.pt", weights_only=True))
        net.eval()
    return nets


def find(picture: Tensor, proposal: Net, refinement: Net, output: Net) -> Tensor:
    """Boxes [faces, 5] in a picture [height, width, 3] with values up to 255."""
    image = (picture.permute(2, 0, 1)[None].to(torch.float32) - 127.5) / 128
    boxes = _square(_propose(image, proposal))
    for size, net, threshold in ((24, refinement, THRESHOLDS[1]), (48, output, THRESHOLDS[2])):
        if not len(boxes):
            break
        results = net(torch.cat([_cut(image, box, size) for box in boxes]))
        boxes = _correct(boxes[:, :4], results[0], results[-1][:, 1], threshold)
        boxes = boxes[_distinct(boxes, 0.7, smaller=size == 48)]
        boxes = boxes if size == 48 else _square(boxes)
    return boxes


def _propose(image: Tensor, net: Net) -> Tensor:
    height, width = image.shape[2:]
    scale, found = 12 / SMALLEST, [torch.zeros(0, 9)]
    while min(height, width) * scale >= 12:
        smaller = F.interpolate(
            image, size=(int(height * scale + 1), int(width * scale + 1)), mode="area"
        )
        corrections, probability = net(smaller)
        rows, columns = torch.nonzero(probability[0, 1] >= THRESHOLDS[0], as_tuple=True)
        corners = torch.stack([columns, rows], 1) * 2.0
        sides = torch.cat([((corners + 1) / scale).floor(), ((corners + 12) / scale).floor()], 1)
        score = probability[0, 1, rows, columns]
        boxes = torch.cat([sides, score[:, None], corrections[0, :, rows, columns].T], 1)
        found.append(boxes[_distinct(boxes, 0.5)])
        scale *= FACTOR
    boxes = torch.cat(found)
    boxes = boxes[_distinct(boxes, 0.7)]
    sizes = (boxes[:, 2:4] - boxes[:, :2]).repeat(1, 2)
    return torch.cat([boxes[:, :4] + boxes[:, 5:] * sizes, boxes[:, 4:5]], 1)


def _correct(boxes: Tensor, corrections: Tensor, score: Tensor, threshold: float) -> Tensor:
    """The boxes that are faces, each side moved by a part of the box's size."""
    sizes = (boxes[:, 2:] - boxes[:, :2] + 1).repeat(1, 2)
    moved = torch.cat([boxes + corrections * sizes, score[:, None]], 1)
    return moved[score > threshold]


def _square(boxes: Tensor) -> Tensor:
    sizes = boxes[:, 2:4] - boxes[:, :2]
    side = sizes.amax(1, keepdim=True)
    corner = boxes[:, :2] + sizes / 2 - side / 2
    return torch.cat([corner, corner + side, boxes[:, 4:5]], 1)


def _cut(image: Tensor, box: Tensor, size: int) -> Tensor:
    """The part of the image in a box, as far as there is one, in another size."""
    left, top, right, bottom = (int(side) for side in box[:4])
    part = image[:, :, max(top - 1, 0) : bottom, max(left - 1, 0) : right]
    return F.interpolate(part, size=(size, size), mode="area")


def _distinct(boxes: Tensor, threshold: float, smaller: bool = False) -> list[int]:
    """Which boxes to keep: none that covers too much of one with a higher score, measured by the
    area of both or of the smaller one."""
    area = (boxes[:, 2] - boxes[:, 0] + 1) * (boxes[:, 3] - boxes[:, 1] + 1)
    left = boxes[:, 4].argsort(descending=True)
    kept: list[int] = []
    while len(left):
        best, left = int(left[0]), left[1:]
        kept.append(best)
        low = torch.maximum(boxes[best, :2], boxes[left, :2])
        high = torch.minimum(boxes[best, 2:4], boxes[left, 2:4])
        shared = (high - low + 1).clamp(min=0).prod(1)
        whole = (
            torch.minimum(area[best], area[left]) if smaller else area[best] + area[left] - shared
        )
        left = left[shared / whole <= threshold]
    return kept


def picture(path: Path) -> Any:
    """[height, width, 3], at half the size."""
    import numpy as np
    from PIL import Image

    return torch.from_numpy(np.array(Image.open(path).convert("RGB")))[::2, ::2]
