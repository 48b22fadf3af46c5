"""Programs to plans: offsets in the arena, and the words that the executor walks."""
