"""Access to the console: who gets in, and what a browser may be made to do.

Around every request, from outside in: `headers` (the Content-Security-Policy), `hosts` (no DNS
rebinding), `sessions` (who it is), `forms` (size, CSRF, read-only). `login` has the pages by which
users get in, `audit` the line for each change.
"""
