"""Passes that replace several operations by one."""
