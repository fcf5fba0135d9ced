""".pt2 files are read as the program that they hold; files of pickled objects are refused with the way around."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

import lowbit
from lowbit.errors import FormatError

torch = pytest.importorskip("torch", reason="reads files of torch")


def test_a_pt2_file_is_its_program(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8 * 36, 4)).eval()
    x = torch.randn(1, 3, 8, 8)
    torch.export.save(torch.export.export(model, (x,)), tmp_path / "m.pt2")
    graph = lowbit.load(tmp_path / "m.pt2")
    assert [n.op for n in graph.nodes] == ["conv", "relu", "reshape", "linear"]
    assert np.allclose(lowbit.compile(graph)(x.numpy()), model(x).detach().numpy(), atol=1e-5)


@pytest.mark.parametrize("kind", [".pt", ".pth", ".bin", ".ckpt"])
def test_pickled_modules_are_not_read(tmp_path: Path, kind: str) -> None:
    torch.save(torch.nn.Linear(2, 2), tmp_path / f"m{kind}")
    with pytest.raises(FormatError, match=rf"(?s)m{kind}: '{kind}' files hold Python objects.*torch.export.save.*'m.pt2'"):
        lowbit.load(tmp_path / f"m{kind}")


class Planted:
    """An object that would write a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> object:
        return (Path.touch, (self.path,))


def test_objects_in_a_pt2_file_are_not_unpickled(tmp_path: Path) -> None:
    model, mark = torch.nn.Linear(2, 2).eval(), tmp_path / "ran"
    torch.export.save(torch.export.export(model, (torch.zeros(1, 2),)), tmp_path / "m.pt2")
    torch.save({"weight": Planted(mark)}, tmp_path / "planted")
    with zipfile.ZipFile(tmp_path / "m.pt2") as old, zipfile.ZipFile(tmp_path / "bad.pt2", "w") as new:
        for name in old.namelist():
            planted = name.endswith((".pt", "sample_inputs"))
            new.writestr(name, (tmp_path / "planted").read_bytes() if planted else old.read(name))
    with pytest.raises(FormatError, match=r"it is not a readable \.pt2 file"):
        lowbit.load(tmp_path / "bad.pt2")
    assert not mark.exists()


def test_a_broken_file(tmp_path: Path) -> None:
    (tmp_path / "m.pt2").write_bytes(b"PK nothing")
    with pytest.raises(FormatError, match=r"(?s)it is not a readable \.pt2 file.*torch\.export\.save"):
        lowbit.load(tmp_path / "m.pt2")
