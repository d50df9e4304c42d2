"""What the passes on graphs are made of: patterns over `lpu_graph` (`matching`)."""
