"""Charts: series as SVG that the server draws, for pages that work without a script.

`line_chart` draws lines over time with axes, and has their values as a table too; `sparkline` draws
one line for a cell of a table. `units` chooses ticks and writes values. Colors are classes of
``static/charts.css``: the Content-Security-Policy refuses styles in the page.
"""
