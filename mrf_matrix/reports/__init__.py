"""What a person reads about a fit."""
