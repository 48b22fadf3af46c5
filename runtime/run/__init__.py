"""Running a plan: threads, calls, models, profiles."""
