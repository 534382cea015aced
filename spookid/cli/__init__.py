"""The command ``spookid``: arguments in, exit status out."""
