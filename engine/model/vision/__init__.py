"""What sees in models that read images. It does not know requests.

    sight.py     looking at an image layer by layer; what a family's slices with images need
    siglip.py    the tower that several families share
    gemma3.py    Gemma 3's: its projector, and its tokens' looking both ways within an image
    loading.py   a folder's tower, beside what mlx-lm loads of it

Owner: the model thread.
"""
