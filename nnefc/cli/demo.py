"""`nnefc demo`: recognise handwritten digits with a trained network."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from nnefc.cli.support.import_and_compile import compile_graphs, load
from nnefc.cli.support.options import Json, Threads, parse_import
from nnefc.cli.support.printing import console, print_json

if TYPE_CHECKING:
    import numpy as np

    Prediction = tuple[str, np.ndarray[Any, Any], int, float]
    """The label of an image, its pixels, the predicted digit and its probability."""


def demo(threads: Threads = None, json: Json = False) -> None:
    """Compile the digits example, show some images with its predictions, and measure its speed.

    The network was trained on 1347 handwritten digits, without the images shown and the 450 on
    which the accuracy is measured, beside that of its twin with weights and activations of 8 bits.

    Examples:

        nnefc demo

        nnefc demo --threads 1 --json
    """
    import numpy as np

    from nnefc.cli.digits import ARCHIVE, HELD_OUT, IMAGES, INT8
    from nnefc.formats.arrays import load_array
    from nnefc.formats.image import read_image

    start = time.perf_counter()
    held_out: Any = load_array(HELD_OUT)
    images = (held_out["images"][:, None] / np.float32(16)).astype(np.float32)
    extents = parse_import(shapes=[f"image={','.join(map(str, images.shape))}"])
    graphs = [load(ARCHIVE), load(ARCHIVE, extents), load(INT8, extents)]
    one, many, codes = compile_graphs(graphs, threads)
    compiled = time.perf_counter()
    predictions: list[Prediction] = []
    for path in sorted(IMAGES.glob("*.png")):
        pixels = read_image(path, (1, 1, 8, 8), np.dtype(np.float32))
        probabilities = one(pixels)[0]
        digit = int(probabilities.argmax())
        predictions.append((path.stem, pixels[0, 0], digit, float(probabilities[digit])))
    right, right_int8 = (
        int((model(images).argmax(axis=1) == held_out["labels"]).sum()) for model in (many, codes)
    )
    facts: dict[str, Any] = {
        "held_out": len(images),
        "right": right,
        "accuracy": right / len(images),
        "right_int8": right_int8,
        "accuracy_int8": right_int8 / len(images),
        "images_per_second": _rate(lambda: one(images[:1]), 1),
        "images_per_second_batch": _rate(lambda: many(images), len(images)),
        "compile_seconds": compiled - start,
    }
    if json:
        listed = [
            {"digit": int(name), "prediction": digit, "probability": probability}
            for name, _, digit, probability in predictions
        ]
        print_json({"images": listed, **facts})
        return
    console().print(f"compiled {ARCHIVE.name} in {facts['compile_seconds']:.1f} s\n")
    _print_facts(facts, predictions)


def _print_facts(facts: dict[str, Any], predictions: list[Prediction]) -> None:
    out = console()
    for row in range(0, len(predictions), 5):
        _print_row(out, predictions[row : row + 5])
    count = facts["held_out"]
    for kind, suffix in (("float32", ""), ("int8", "_int8")):
        right, accuracy = facts[f"right{suffix}"], facts[f"accuracy{suffix}"]
        out.print(f"held out, {kind}: {right} of {count} correct, accuracy {accuracy:.1%}")
    out.print(
        f"speed: {facts['images_per_second']:,.0f} images per second one at a time, "
        f"{facts['images_per_second_batch']:,.0f} in batches of {count}"
    )


def _print_row(out: Any, row: list[Prediction]) -> None:
    """Print images side by side, two rows of pixels in a line of text, with predictions below."""
    from rich.text import Text

    colour = out.is_terminal and "utf" in out.encoding
    shades = _shades(out.encoding)
    for y in range(0, 8, 2):
        line = Text()
        for _, pixels, _, _ in row:
            for x in range(8):
                top, bottom = (int(255 * pixels[y + d, x]) for d in (0, 1))
                if colour:
                    style = f"rgb({top},{top},{top}) on rgb({bottom},{bottom},{bottom})"
                    line.append("▀▀", style)
                else:
                    line.append(shades[min(4, (top + bottom) // 2 * 5 // 256)] * 2)
            line.append("  ")
        out.print(line)
    captions = Text()
    for name, _, digit, probability in row:
        mark = "" if str(digit) == name else f" (is {name})"
        captions.append(f"{digit}  {probability:.1%}{mark}".ljust(18))
    out.print(captions)
    out.print()


def _shades(encoding: str) -> str:
    """Five characters from light to dark that the encoding can represent."""
    try:
        " ░▒▓█".encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return " .:*#"
    return " ░▒▓█"


def _rate(action: Any, items: int, seconds: float = 0.5) -> float:
    """Items per second, measured for `seconds`; a call of `action` handles `items`."""
    action()
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        action()
        count += items
    return count / (time.perf_counter() - start)
