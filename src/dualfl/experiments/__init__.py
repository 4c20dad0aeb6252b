"""Experiments: single runs, comparisons, tuning, and the paper's figure and claims."""
