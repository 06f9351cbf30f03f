"""Text that the project writes itself: every lesson of the demo model, from seeded templates."""
