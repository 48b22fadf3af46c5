"""Models whose shapes are known at the call: `model` is called, `plan_cache` finds its plans."""
