"""Results to pictures, HTML and terminal tables; computes nothing."""
