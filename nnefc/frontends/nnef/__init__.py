"""NNEF documents to graphs (chapters 3, 5 and 7 of the specification)."""

from nnefc.frontends.nnef.import_model import check_document, import_text

__all__ = ["check_document", "import_text"]
