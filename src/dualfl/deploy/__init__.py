"""A deployment on real silos, from an empty folder to a report: what `dualfl deploy` does.

`project` is the coordinator's folder, `member` a silo's; `coordinator` and `member.serve` keep Flower's processes
running; `proxy` is the only part of the coordinator that silos can reach; `results` writes the results of a run;
`trial` does all of it on one machine.
"""
