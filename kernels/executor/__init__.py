"""The executor: runs the launches of a plan, on one thread or a team."""
