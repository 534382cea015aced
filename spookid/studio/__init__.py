"""spookid studio: from files to an identified robot in a browser, on this machine alone.

The page (``pages`` and the steps) writes a problem file; processes of ``worker`` check and solve that file, so that the
command line gives the same answer. ``guard`` decides who may ask, and ``folder`` which files may be touched.
"""
