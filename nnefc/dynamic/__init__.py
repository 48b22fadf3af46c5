"""Models whose shapes are known at the call: `DynamicModel`, its plan cache and its states."""
