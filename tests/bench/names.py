"""What the sides of a comparison are called."""

HEARTH = "hearth"
MLX_LM_SERVER = "mlx_lm.server"
BATCH_GENERATOR = "BatchGenerator"
