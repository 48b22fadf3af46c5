"""Helpers that several tests share: documents, networks, oracles, folders."""
