"""The module in C that gives a compiled model to implementations of OpenVX as a user kernel."""
