"""A deployment on real silos, from an empty folder to a report: what `dualfl deploy` does.

`project` is the coordinator's folder, `member` a silo's. `coordinator` and `silo_service` are the two services: each is
a `supervisor` of a few parts, alone in its folder (`service`). `proxy` is the only part of the coordinator that silos
can reach, `silo_process` all that runs at a silo. `running` is a run under way, `results` writes what came of it, and
`trial` does all of it on one machine.
"""
