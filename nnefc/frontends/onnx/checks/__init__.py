"""Checks of models: operators, sizes, item types, declared outputs, errors of all inputs."""
