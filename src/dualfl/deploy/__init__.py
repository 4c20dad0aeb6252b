"""A deployment on real silos, from an empty folder to a report: what `dualfl deploy` does.

`project` is the coordinator's folder, `member` a silo's; `coordinator` and `member.serve` keep Flower's processes
running; `proxy` is all that silos can reach of the coordinator; `results` writes what came of a run; `trial` does all
of it on one machine.
"""
