"""Speaks to tool servers: the Model Context Protocol over streamable HTTP. It knows no rows."""
