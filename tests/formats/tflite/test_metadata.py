"""Metadata of TensorFlow Lite files, and label files in the archive behind them."""

from __future__ import annotations

import base64
import io
import json
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnefc.formats.tflite.metadata import BUFFER, RUNTIME, describe_metadata
from nnefc.formats.tflite.model_file import read_model_bytes
from nnefc.support.errors import Diagnostics
from nnefc.support.limits import Limits
from tests.helpers.command_line import Cli
from tests.helpers.tflite.hostile import mutations, rich_tables
from tests.helpers.tflite.write import write

WRITTEN = zlib.decompress(
    base64.b85decode(
        "c-mc3F;2rk5FA^^G9d~Ua*-m13kn*nBs>5mbVwiyN(vn3L@dQgWIHG&1rMO$2|R%(Q1SpCLT~2I8#&~p(cZ3iXK!"
        "}h18~#t4+5MbL=RmA@X>|`hc_?=oDp+kL%b4qHgHco5(o4L(M8m!wFrl}uBuAcc43aCZBM=r&>Zbgi58Koc$%rG+"
        "?2IHTE)psoewqfq4uM2v@U1MT<UzHZC(oV*0%A1cjCjUbL##lMon`ZMqnZj!WEc!N3<UszK+C2gT1eT(xDdrHO%9"
        "QnisVOmwu5fb5%4w{Jr`5!mnrdMtl<A#E;g%8G540+L;&da%oFVt-ZzhIN0XGbq%*GyRc+$U*z+J#*_Y@%wea;Rc"
        ")*BZ<BB9{G;6-On2ZIep`02?Ujg~K=u}{(xhDH3iZE|X7Q7f{47ov5RT^|*aNtYGgX9>G@lkGe{62RA00<QB>"
    )
)
"""Metadata that MediaPipe's generated accessors wrote, with all kinds of tables."""
LABELS = b"sparrow\nowl\nwren\ncrow\njay\nrobin\n"


def archive_of(files: dict[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return stream.getvalue()


FILES = {"labels.txt": LABELS, "readme.txt": b"read"}


def content_of(metadata: bytes = WRITTEN, behind: bytes | None = None) -> bytes:
    """A model with these metadata, and bytes behind it."""
    tables = rich_tables()
    count = len(tables["buffers"])
    tables["buffers"] += ({"data": metadata}, {"data": b"1.14.0".ljust(16, b"\0")})
    entries = ({"name": BUFFER, "buffer": count}, {"name": RUNTIME, "buffer": count + 1})
    return write({**tables, "metadata": entries}) + (
        archive_of(FILES) if behind is None else behind
    )


def facts_of(content: bytes) -> dict[str, Any]:
    model = read_model_bytes(memoryview(content), "net.tflite", Limits(), Diagnostics())
    return describe_metadata(model, memoryview(content))


def test_metadata_are_those_that_were_written() -> None:
    facts = facts_of(content_of())
    assert facts["faults"] == []
    assert facts["min_runtime_version"] == "1.14.0"
    assert (facts["name"], facts["version"], facts["author"]) == ("Birds", "v2", "A. Author")
    assert (facts["license"], facts["min_parser_version"]) == ("Apache-2.0", "1.3.0")
    (image,), (scores,) = facts["inputs"], facts["outputs"]
    assert (image["name"], image["content"]) == ("image", "image, RGB")
    assert image["normalization"] == [{"mean": [127.5], "std": [128.0]}]
    assert scores["files"] == [{"name": "labels.txt", "type": "axis labels", "locale": "en"}]
    assert facts["files"] == {"labels.txt": len(LABELS), "readme.txt": 4}
    assert facts["labels"] == {"labels.txt": LABELS.decode().split()}


@pytest.mark.parametrize("name", ["net.tflite", "net.zip"])
def test_inspect_shows_metadata(cli: Cli, tmp_path: Path, name: str) -> None:
    (tmp_path / "net.tflite").write_bytes(content_of())
    if name.endswith(".zip"):
        assert cli("pack", tmp_path / "net.tflite", "-o", tmp_path / name).status == 0
    shown = cli("inspect", tmp_path / name).out
    assert "signature serving_default: image -> scores" in shown
    assert "6 in labels.txt: sparrow, owl, wren, crow, jay, ..." in shown
    facts = json.loads(cli("inspect", tmp_path / name, "--json").out)["tflite"]
    (metadata,) = facts["metadata"]
    assert metadata["labels"]["labels.txt"][-1] == "robin"
    signature = {
        "key": "serving_default",
        "subgraph": 0,
        "inputs": ["image"],
        "outputs": ["scores"],
    }
    assert facts["signatures"] == [signature]


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (content_of(b"0" * 40), "are b'0000', not b'M001'"),
        (content_of(WRITTEN[:300]), "TFLITE_METADATA is damaged"),
        (content_of(behind=b""), "no archive is behind the model"),
        (content_of(behind=archive_of({"readme.txt": b""})), "'labels.txt' is not in the archive"),
        (content_of(behind=archive_of(FILES)[20:]), "cannot be read"),
        (content_of(behind=archive_of({**FILES, "labels.txt": bytes(2 << 20)})), "more than 1,048"),
        (content_of(behind=archive_of(FILES, zipfile.ZIP_LZMA)), "the compression method 14"),
    ],
)
def test_faults_are_listed(content: bytes, fault: str) -> None:
    assert fault in str(facts_of(content)["faults"])


def test_damaged_metadata_and_archives_are_read_or_refused() -> None:
    behind = archive_of(FILES)
    kinds = [mutations(WRITTEN, 3, 200), mutations(behind, 4, 200)]
    facts = [facts_of(content_of(each)) for each in kinds[0]]
    facts += [facts_of(content_of(behind=each)) for each in kinds[1]]
    faulty = np.mean([bool(each["faults"]) for each in facts])
    assert 0.2 < faulty < 1
