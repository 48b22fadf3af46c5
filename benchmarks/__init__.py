"""Programs that measure nnefc, and other engines beside it.  They compile no kernels for others."""

import os

os.environ.setdefault("NNEFC_AHEAD", "off")
