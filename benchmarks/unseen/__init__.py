"""Networks whose kernels a release wheel should have, although its set was not made from them."""
