"""Internal operations, which passes and front ends build; documents cannot name them."""
