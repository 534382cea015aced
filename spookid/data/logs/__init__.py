"""Files of many formats: each reader makes columns with time stamps, and one place makes a recording of them."""
