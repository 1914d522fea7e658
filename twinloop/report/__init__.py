"""Results to images, HTML and terminal tables; computes nothing."""
