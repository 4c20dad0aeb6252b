"""What one runs to see something: single runs, the demo, the claims of the paper."""
