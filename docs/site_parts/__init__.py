"""What the site needs beside Sphinx's own parts."""
