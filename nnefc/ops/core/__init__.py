"""The definition of an operation (`spec`) and formulas that several operations share."""
