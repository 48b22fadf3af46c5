"""Models that were compiled before: kept whole in the cache folder, as artifacts.

An entry is named by a digest of all that a compiled model depends on (`facts`): the bytes of the
document, how it is imported and lowered, the machine, the versions of nnefc and of what translates
kernels.  It is mapped like any artifact, so that processes share its weights.  What is damaged, or
cannot be written, is as good as none.
"""
