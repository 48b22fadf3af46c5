"""Compile modules of PyTorch, and export them to NNEF archives (the extra `nnefc[pytorch]`).

>>> model = nnefc.pytorch.compile(module, (x,))                 # doctest: +SKIP
>>> y = model(x)                                                # doctest: +SKIP
>>> fast = torch.compile(module, backend="nnefc")               # doctest: +SKIP
>>> nnefc.pytorch.export(module, x, "net.nnef.tgz")             # doctest: +SKIP
"""

from nnefc.support.limits import no_collection

with no_collection():  # a network that exists already would be searched for garbage
    from nnefc.pytorch.compile_module import CompiledModule, compile
    from nnefc.pytorch.export_module import export

__all__ = ["CompiledModule", "compile", "export"]
