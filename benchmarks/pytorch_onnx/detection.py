"""Detectors of one stage, with non-maximum suppression; DETR and SAM."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (torchvision and transformers are not typed)

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.pytorch_onnx.layers import convolution
from benchmarks.pytorch_onnx.network import Extents, Network, entry, of_images, randomise
from benchmarks.pytorch_onnx.text import transformers


def suppress(boxes: Tensor, scores: Tensor, classes: Tensor, threshold: float) -> Tensor:
    """The indices of the boxes [N, 4] that remain, in order of their scores.

    Boxes of different classes do not suppress each other: each class is moved elsewhere.
    """
    operators = import_module("torchvision.ops")
    offsets = classes.to(boxes) * (boxes.max() + 1)
    return operators.nms(boxes + offsets[:, None], scores, threshold)


class Bottlenecks(nn.Module):
    """The block C2f: residuals, all of whose results are concatenated."""

    def __init__(self, inputs: int, outputs: int, count: int, *, residual: bool) -> None:
        super().__init__()
        half = outputs // 2
        self.enter = convolution(inputs, outputs, 1)
        self.blocks = nn.ModuleList(
            nn.Sequential(convolution(half, half), convolution(half, half)) for _ in range(count)
        )
        self.leave = convolution((2 + count) * half, outputs, 1)
        self.residual = residual

    def forward(self, x: Tensor) -> Tensor:
        parts = list(self.enter(x).chunk(2, 1))
        for block in self.blocks:
            y = block(parts[-1])
            parts.append(parts[-1] + y if self.residual else y)
        return self.leave(torch.cat(parts, 1))


class SpatialPyramid(nn.Module):
    """Poolings of three sizes, one after the other (SPPF)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.enter, self.leave = convolution(width, width // 2, 1), convolution(2 * width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        parts = [self.enter(x)]
        for _ in range(3):
            parts.append(functional.max_pool2d(parts[-1], 5, 1, 2))
        return self.leave(torch.cat(parts, 1))


class Yolo(nn.Module):
    """YOLOv8: a path aggregation network, distributions of distances, and suppression."""

    BINS: Final = 16
    strides: Tensor
    points: Tensor
    bins: Tensor

    def __init__(self, size: int, width: int, depth: int, classes: int, limit: int) -> None:
        super().__init__()
        self.classes, self.limit = classes, limit
        w = [width, 2 * width, 4 * width, 8 * width, 16 * width]
        self.stem = nn.Sequential(
            convolution(3, w[0], 3, 2),
            convolution(w[0], w[1], 3, 2),
            self._block(w[1], w[1], depth),
        )
        self.stage3 = nn.Sequential(
            convolution(w[1], w[2], 3, 2), self._block(w[2], w[2], 2 * depth)
        )
        self.stage4 = nn.Sequential(
            convolution(w[2], w[3], 3, 2), self._block(w[3], w[3], 2 * depth)
        )
        self.stage5 = nn.Sequential(
            convolution(w[3], w[4], 3, 2), self._block(w[4], w[4], depth), SpatialPyramid(w[4])
        )
        neck = {"residual": False}
        self.up4 = Bottlenecks(w[4] + w[3], w[3], depth, **neck)
        self.up3 = Bottlenecks(w[3] + w[2], w[2], depth, **neck)
        self.shrink3, self.shrink4 = convolution(w[2], w[2], 3, 2), convolution(w[3], w[3], 3, 2)
        self.down4 = Bottlenecks(w[2] + w[3], w[3], depth, **neck)
        self.down5 = Bottlenecks(w[3] + w[4], w[4], depth, **neck)
        self.boxes = nn.ModuleList(self._head(c, w[2], 4 * self.BINS) for c in w[2:])
        self.scores = nn.ModuleList(self._head(c, w[2], classes) for c in w[2:])
        strides = [torch.full(((size // s) ** 2,), float(s)) for s in (8, 16, 32)]
        self.register_buffer("strides", torch.cat(strides))
        points = [self._points(size // s) for s in (8, 16, 32)]
        self.register_buffer("points", torch.cat(points, 1))
        self.register_buffer("bins", torch.arange(self.BINS, dtype=torch.float32))

    @staticmethod
    def _block(inputs: int, outputs: int, depth: int) -> nn.Module:
        return Bottlenecks(inputs, outputs, depth, residual=True)

    @staticmethod
    def _head(inputs: int, width: int, outputs: int) -> nn.Module:
        layers = convolution(inputs, width), convolution(width, width), nn.Conv2d(width, outputs, 1)
        return nn.Sequential(*layers)

    @staticmethod
    def _points(cells: int) -> Tensor:
        """The centres of cells [2, cells * cells], x first."""
        places = torch.arange(cells) + 0.5
        y, x = torch.meshgrid(places, places, indexing="ij")
        return torch.stack((x.flatten(), y.flatten()))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        boxes, scores = self.detect(self._features(x))
        best, classes = scores[0].max(0)
        best, order = best.topk(self.limit)
        chosen, classes = boxes[0].T[order], classes[order]
        likely = (best > 0.25).nonzero()[:, 0]
        chosen, best, classes = chosen[likely], best[likely], classes[likely]
        kept = suppress(chosen, best, classes, 0.7)
        return chosen[kept], best[kept], classes[kept]

    def _features(self, x: Tensor) -> list[Tensor]:
        p3 = self.stage3(self.stem(x))
        p4 = self.stage4(p3)
        p5 = self.stage5(p4)
        n4 = self.up4(torch.cat((functional.interpolate(p5, scale_factor=2.0), p4), 1))
        n3 = self.up3(torch.cat((functional.interpolate(n4, scale_factor=2.0), p3), 1))
        n4 = self.down4(torch.cat((self.shrink3(n3), n4), 1))
        return [n3, n4, self.down5(torch.cat((self.shrink4(n4), p5), 1))]

    def detect(self, features: list[Tensor]) -> tuple[Tensor, Tensor]:
        """Corners of boxes [batch, 4, N] and scores [batch, classes, N]."""
        boxes = torch.cat([head(x).flatten(2) for head, x in zip(self.boxes, features)], 2)
        scores = torch.cat([head(x).flatten(2) for head, x in zip(self.scores, features)], 2)
        shares = boxes.unflatten(1, (4, self.BINS)).softmax(2)
        distances = (shares * self.bins[:, None]).sum(2)
        low, high = distances.chunk(2, 1)
        corners = torch.cat((self.points - low, self.points + high), 1) * self.strides
        return corners, scores.sigmoid()


@entry("yolo", "YOLO with NMS", "torchvision")
def yolo(small: bool) -> Network:
    outputs = ("boxes", "scores", "classes")
    if small:
        return of_images(Yolo(64, 8, 1, 5, 40), 64, outputs=outputs, batch=False)
    return of_images(Yolo(640, 16, 1, 80, 300), 640, outputs=outputs, batch=False)


class Ssd(nn.Module):
    """SSD: default boxes of several levels; suppression per class."""

    anchors: Tensor

    def __init__(self, backbone: nn.Module, head: nn.Module, anchors: Tensor, limit: int) -> None:
        super().__init__()
        self.backbone, self.head, self.limit = backbone, head, limit
        self.register_buffer("anchors", anchors)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        found = self.head(list(self.backbone(x).values()))
        boxes = decode(found["bbox_regression"][0], self.anchors, (10.0, 10.0, 5.0, 5.0))
        boxes = boxes.clamp(0.0, float(x.shape[-1]))
        scores = found["cls_logits"][0].softmax(-1)
        results: list[tuple[Tensor, Tensor, Tensor]] = []
        for number in range(1, scores.shape[1]):
            best, order = scores[:, number].topk(self.limit)
            results.append((boxes[order], best, torch.full_like(order, number)))
        chosen, best, classes = (torch.cat(parts) for parts in zip(*results))
        likely = (best > 0.01).nonzero()[:, 0]
        chosen, best, classes = chosen[likely], best[likely], classes[likely]
        kept = suppress(chosen, best, classes, 0.45)[: self.limit]
        return chosen[kept], best[kept], classes[kept]


def decode(offsets: Tensor, anchors: Tensor, weights: tuple[float, ...]) -> Tensor:
    """Corners of boxes [..., 4] from offsets relative to anchors, given by their corners."""
    sizes = anchors[..., 2:] - anchors[..., :2]
    centres = anchors[..., :2] + 0.5 * sizes
    scale = offsets.new_tensor(weights)
    centres = centres + offsets[..., :2] / scale[:2] * sizes
    sizes = sizes * (offsets[..., 2:] / scale[2:]).clamp(max=4.0).exp()
    return torch.cat((centres - 0.5 * sizes, centres + 0.5 * sizes), -1)


@entry("ssd", "SSD", "torchvision")
def ssd(small: bool) -> Network:
    library: Any = import_module("torchvision.models.detection")
    lists: Any = import_module("torchvision.models.detection.image_list")
    options = {"weights": None, "weights_backbone": None, "num_classes": 4 if small else 21}
    model = library.ssd300_vgg16(**options)
    size = 300
    if small:
        model = library.ssdlite320_mobilenet_v3_large(**options, norm_layer=nn.BatchNorm2d)
        size = 96
    sample = torch.zeros(1, 3, size, size)
    model.eval()
    features = list(model.backbone(sample).values())
    anchors = model.anchor_generator(lists.ImageList(sample, [(size, size)]), features)[0]
    module = Ssd(model.backbone, model.head, anchors, 20 if small else 200)
    return of_images(module, size, outputs=("boxes", "scores", "classes"), batch=False)


class Detections(nn.Module):
    """The scores of classes and the boxes of a DETR."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        output = self.model(pixel_values=x, pixel_mask=mask)
        return output.logits, output.pred_boxes


@entry("detr", "DETR", "transformers")
def detr(small: bool) -> Network:
    library = transformers()
    sizes = {
        "d_model": 32,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 64,
        "decoder_ffn_dim": 64,
        "num_queries": 10,
    }
    widths = {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1]}
    backbone = library.ResNetConfig(**(widths if small else {}), out_features=None)
    config = library.DetrConfig(backbone_config=backbone, **(sizes if small else {}))
    size = 64 if small else 512

    def inputs(extents: Extents) -> dict[str, Tensor]:
        batch = extents["batch"]
        mask = torch.ones(batch, size, size, dtype=torch.long)
        mask[:, :, -size // 4 :] = 0
        return {"x": torch.randn(batch, 3, size, size), "mask": mask}

    module = randomise(Detections(library.DetrForObjectDetection(config)))
    axes = {"x": {0: "batch"}, "mask": {0: "batch"}}
    return Network(module, inputs, ("logits", "boxes"), axes, {"batch": 2}, {"batch": 1})


class PromptedMasks(nn.Module):
    """The masks of a SAM for points in a picture, and their estimated quality."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
        output = self.model(pixel_values=x, input_points=points)
        return output.iou_scores, output.pred_masks


@entry("sam", "SAM", "transformers")
def sam(small: bool) -> Network:
    library = transformers()
    size = 64 if small else 512
    vision: dict[str, Any] = {"image_size": size}
    prompt: dict[str, Any] = {"image_size": size, "image_embedding_size": size // 16}
    decoder: dict[str, Any] = {}
    if small:
        sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "mlp_dim": 64}
        attention = {"window_size": 3, "global_attn_indexes": [1], "output_channels": 32}
        vision |= sizes | attention
        vision |= {"num_pos_feats": 16}
        prompt |= {"hidden_size": 32}
        decoder |= {"hidden_size": 32, "mlp_dim": 64, "num_attention_heads": 2}
        decoder |= {"iou_head_hidden_dim": 32}
    config = library.SamConfig(
        vision_config=vision, prompt_encoder_config=prompt, mask_decoder_config=decoder
    )

    def inputs(extents: Extents) -> dict[str, Tensor]:
        batch = extents["batch"]
        return {
            "x": torch.randn(batch, 3, size, size),
            "points": size * torch.rand(batch, 1, extents["points"], 2),
        }

    axes = {"x": {0: "batch"}, "points": {0: "batch", 2: "points"}}
    extents, others = {"batch": 1, "points": 2}, {"batch": 2, "points": 3}
    module = randomise(PromptedMasks(library.SamModel(config)))
    return Network(module, inputs, ("quality", "masks"), axes, extents, others)
