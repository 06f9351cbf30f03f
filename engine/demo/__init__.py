"""The built-in demo model: how its text is written, how it is trained and how it is examined.

Nothing here is imported by the running service, which only opens the files under model/.
"""
