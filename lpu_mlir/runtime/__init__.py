"""Running compiled programs: buffers, launches, host calls, and the callable given to torch."""
