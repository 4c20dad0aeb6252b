"""A silo's own table: read, summarised, agreed upon with the other silos, and encoded as numbers.

Silos may be files on one disk or members far away. What several silos must agree upon is computed from summaries and
from sums, never from rows, so both take the same path.
"""
