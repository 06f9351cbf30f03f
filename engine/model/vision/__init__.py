"""What sees in models that read images: towers, what joins them to a text model, and slices.

siglip.py    the tower that several families share
gemma3.py    Gemma 3's: its projector, and its tokens' looking both ways within an image
loading.py   a folder's tower, beside what mlx-lm loads of it
"""
