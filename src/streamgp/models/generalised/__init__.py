"""The online ensemble for labels, counts and grades, by Laplace's approximation."""
