"""What the doctor looks at, a topic in a module; each check is a function that yields findings."""
