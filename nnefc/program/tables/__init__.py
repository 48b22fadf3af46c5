"""Tables that kernels read, computed from shapes.

Static models compute them once, symbolic plans whenever they are patched.  Loaded models need them
without lowering, so these modules import constants of kernels, but no code of kernels.
"""
