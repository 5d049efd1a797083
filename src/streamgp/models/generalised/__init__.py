"""The online ensemble for classes, counts and ordinal targets, by Laplace's approximation."""
