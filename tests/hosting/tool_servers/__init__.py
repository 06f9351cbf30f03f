"""Tool servers in the chat, with a real one made by the official SDK."""
