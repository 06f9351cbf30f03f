"""The usage pages: what was used, and how much of each limit is left."""
