"""The best plans for the open job over everything that can be rented or is there, without drawing."""
