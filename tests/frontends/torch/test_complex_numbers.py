"""Complex tensors and Fourier transforms within exported modules, compared with PyTorch."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false
from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

import torch
from torch import nn

import nnefc
import nnefc.pytorch
from nnefc.support.errors import NnefError, NnefWarning
from tests.helpers.pytorch.exported import compare


class Rotated(nn.Module):
    """Rotary positions as the first Llama has them: a constant of complex numbers."""

    def __init__(self) -> None:
        super().__init__()
        angles = torch.outer(torch.arange(12).float(), 1 / 100 ** (torch.arange(4).float() / 4))
        self.turns = torch.polar(torch.ones_like(angles), angles)
        self.more = nn.Buffer(torch.randn(4, dtype=torch.complex64))

    def forward(self, x: Any) -> Any:
        pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        turns = self.turns[: x.shape[1]].view(1, x.shape[1], 1, -1) * self.more
        return torch.view_as_real(pairs * turns).flatten(3).type_as(x)


def test_rotary_positions_of_complex_numbers(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module, x = Rotated(), torch.randn(2, 12, 3, 8)
    compare(module, (x,))
    model = nnefc.pytorch.compile(module, (x,))
    torch.testing.assert_close(model(x), module(x))
    model.save(tmp_path / "rotated.nnefc")
    found: Any = nnefc.load(tmp_path / "rotated.nnefc")(x.numpy())
    torch.testing.assert_close(torch.from_numpy(found), module(x))
    torch.export.save(torch.export.export(module, (x,)), tmp_path / "rotated.pt2")
    stored: Any = nnefc.compile(tmp_path / "rotated.pt2")(x.numpy())
    torch.testing.assert_close(torch.from_numpy(stored), module(x))


class Arithmetic(nn.Module):
    def forward(self, x: Any, y: Any) -> Any:
        z = torch.complex(x, y)
        w = torch.cat((z.conj() * 2.0, (z + x) / (z * 1j - 3)), 1)
        products = (w @ w.transpose(0, 1)).unsqueeze(0)[:, 1:]
        several = torch.stack((z - y, torch.exp(z * 0.1))).sum(0, keepdim=True)
        where = torch.where(x > 0, z, x * y)
        sums = torch.einsum("ab,cb,dc->ad", z, z.conj(), (x @ x.mT) * 1j)
        return (
            torch.view_as_real(sums),
            torch.view_as_real(products),
            *(products.abs(), several.angle(), several.real, where.imag, x.angle()),
            torch.view_as_real((y - z) ** 2 / x + y.to(torch.complex64)),
        )


def test_arithmetic_of_complex_numbers() -> None:
    torch.manual_seed(0)
    compare(Arithmetic(), (torch.randn(3, 4), torch.randn(3, 4)))


class Transforms(nn.Module):
    def forward(self, x: Any) -> Any:
        window = torch.hann_window(16)
        spectrum = torch.stft(x, 16, 4, window=window, return_complex=True)
        power = spectrum[..., :-1].abs() ** 2
        sound = torch.istft(spectrum * 2, 16, 4, window=window)
        pictures = x.reshape(2, 4, 5)
        whole = torch.fft.fftn(pictures, norm="forward")
        return (
            *(
                power,
                sound,
                torch.fft.fftshift(whole).real,
                torch.fft.ifft(whole, norm="ortho").imag,
            ),
            torch.fft.irfft2(torch.fft.rfft2(pictures, norm="ortho"), s=(4, 5), norm="ortho"),
            *(torch.fft.irfft(torch.fft.rfft(x, n=n), n=m) for n, m in ((7, 6), (6, 7), (3, 2))),
            torch.fft.hfft(x),
        )


def test_complex_tensors_within_graphs_of_dynamo() -> None:
    """PyTorch runs only those that an operator without a variant for them takes or gives."""

    class Partly(nn.Module):
        def forward(self, x: Any) -> Any:
            z = torch.acosh(torch.complex(x, x + 1))
            return torch.view_as_real(z) + torch.fft.ifft(torch.fft.fft(x)).real[..., None]

    torch.manual_seed(0)
    x, y = torch.randn(3, 4), torch.randn(3, 4)
    with torch.no_grad():
        fast = torch.compile(Arithmetic(), backend="nnefc")
        with warnings.catch_warnings():
            warnings.simplefilter("error", NnefWarning)
            found = fast(x, y)
        for each, want in zip(found, Arithmetic()(x, y), strict=True):
            torch.testing.assert_close(each, want)
        with pytest.warns(NnefWarning, match="complex tensors"):
            sums = torch.compile(Partly(), backend="nnefc")(x)
        torch.testing.assert_close(sums, Partly()(x))


def test_fourier_transforms() -> None:
    torch.manual_seed(0)
    compare(Transforms(), (torch.randn(1, 40),))


def test_operators_that_take_no_complex_tensors() -> None:
    class Wrong(nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.view_as_real(torch.acosh(torch.complex(x, x)))

    with pytest.raises(NnefError, match="complex tensors are not supported") as caught:
        nnefc.pytorch.compile(Wrong(), (torch.randn(3),))
    (error,) = caught.value.errors
    assert error.place
    assert error.place.file == __file__


class Functions(nn.Module):
    """Functions beside branch cuts and at 0, comparisons, sums, norms and products."""

    def forward(self, x: Any, y: Any) -> Any:
        z = torch.complex(x, y)
        w = z.reshape(3, -1)
        functions = (
            *(torch.sqrt, torch.sin, torch.cos, torch.tan, torch.sinh, torch.cosh, torch.tanh),
            *(torch.sigmoid, torch.sgn, torch.expm1, torch.exp2, nn.functional.silu),
        )
        of_others = (torch.log, torch.log1p, torch.log2, torch.log10, torch.reciprocal)
        safe = torch.where(z == 0, torch.ones_like(z) * 2j, z)
        found = [f(z) for f in functions] + [f(safe) for f in (*of_others, torch.rsqrt)]
        found += [z**3, safe**-2, z**0.5, z**2.5, safe ** (0.5 + 1j), 2.0**z, safe ** w[0, 1]]
        found += [torch.nn.functional.pad(w, (1, 2), value=1.5), x.sum(dtype=torch.complex64)]
        found += [w.sum(1), w.mean(0), w.cumsum(1), torch.addmm(w, w[:, :3], w, beta=2, alpha=1j)]
        found += [nn.functional.linear(w, w, w[:, 0]), torch.addcmul(w, w, w, value=2)]
        found += [torch.lerp(w, w * w, 0.25), torch.full_like(w, 1 + 2j), torch.var_mean(w, 1)[1]]
        truths = (z == w.flatten().flip(0), z != 0, z.isnan(), torch.logical_not(z), z.any())
        norms = (torch.linalg.vector_norm(w, 2, 1), w.var(1), w.std())
        return (*map(torch.view_as_real, found), *truths, *norms)


def test_functions_of_complex_numbers() -> None:
    torch.manual_seed(0)
    x = torch.cat((torch.randn(12), torch.tensor([0.0, -2.0, -2.0, 0.0, 0.0, 1e-2, 40.0, -40.0])))
    y = torch.cat((torch.randn(12), torch.tensor([0.0, 0.0, -0.5, 3.0, -3.0, 1e-2, 1.0, 2.0])))
    x, y = torch.cat((x, torch.randn(1))), torch.cat((y, torch.randn(1)))
    compare(Functions(), (x, y), tolerance=1e-4)
