"""What a server and silos in other places say to each other, whatever carries it.

The server's side is an engine (`engines.remote`), the silo's side is `silo.Keeper`; between them travel bytes that
`wire` writes and reads. Nothing here knows Flower.
"""
