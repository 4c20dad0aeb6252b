"""What is not a test here: `faulty` is for the processes of silos, and must never be imported by pytest."""

collect_ignore = ["faulty"]
