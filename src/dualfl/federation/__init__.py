"""Silos in other places: what a server and the silos say to each other.

The server's side is an engine, in `remote`; the silo's side is `keeper`. Between them travel bytes that `wire` writes
and reads. Only the package `flower` in here depends on Flower.
"""
