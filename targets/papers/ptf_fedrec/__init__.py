"""Yuan et al., ICDE 2024: clients send lists of items with predicted scores instead of a model."""
