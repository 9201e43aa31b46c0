"""What pages about groups show: rows of all groups, one group, and the fields of a reset.

`group_rows` joins what a session's client lists with the history; `group_view` reads one group;
`reset_form` reads the fields of a form. They know no page and no request.
"""
