"""Physics engines behind one shape of use: many environments, each with its own draw, stepped side by side."""
