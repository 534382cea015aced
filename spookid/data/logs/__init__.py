"""Files of many formats: each reader makes columns with timestamps, and one place makes a recording of them."""
