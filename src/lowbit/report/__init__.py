"""What lowbit tells about a network, as values that print themselves and turn into JSON."""
