"""The site of the documentation: `python -m docs_site FOLDER` builds it and checks what it built.

1. `staging` copies the pages of docs/ and each file of the repository that they link to, so that no
   link leaves the site. `diagrams` draws Mermaid's blocks, `navigation` lists all pages.
2. Zensical builds HTML from the copy, and fails for each of its warnings.
3. `links` checks each link and anchor of the HTML, and that nothing is loaded from another host.
4. `browser` opens pages in Chromium, where there is one, and counts what they request.
5. `versions` puts the HTML into the folder of its version, beside those of other versions.
"""
