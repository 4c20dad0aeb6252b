"""A finished fit for people: the folder it is kept in, what the screen shows of it, and what it predicts."""
