"""Flower carries the messages: a ServerApp and a ClientApp that only translate, and what it takes to start them.

`client` and `server` are the two apps; `grid` is Flower's Grid as our transport; `job` is what the ServerApp runs;
`runtime` starts Flower's processes and reads what they say.
"""
