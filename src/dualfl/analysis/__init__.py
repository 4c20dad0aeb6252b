"""From files to a model: tables with gaps and categories become silos, and a fit becomes a folder.

What a silo tells about itself is in `schema`; everything that several silos have to agree upon is computed from these
summaries and from sums, never from rows, so that the silos may be files on one disk or members far away.
"""
