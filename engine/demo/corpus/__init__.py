"""Text that the project writes itself: every lesson the demo model learns, from seeded templates."""
