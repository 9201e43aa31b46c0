"""The pages of the console, one module per subject; `app` serves the routes of each.

A module has ``ROUTES``, and nothing else has to name it: the menu shows a section of
`kqueue.console.navigation` if a module serves its path. A page is a synchronous function, which
Starlette runs in a thread, and gets all it needs from a `Page`:

    def group(request: Request) -> Response:
        page = Page(request)
        name = request.path_params["name"]
        with page.client() as client:                       # the session's credentials
            group = client.groups().get(name)
        if group is None:
            raise UnknownResource(f"There is no group {name!r}.")          # 404
        crumbs = (Crumb("Groups", "/groups"),)
        return page.render("group.html", title=name, crumbs=crumbs, group=group)

    def delete(request: Request) -> Response:               # POST: the CSRF token has been checked
        page = Page(request)
        name = request.path_params["name"]
        with page.client() as client, page.change("delete group", name):   # one audit line
            client.delete_group(name)
        page.flash(f"Deleted group {name}.")
        return page.redirect("/groups")

    ROUTES = [
        Route("/groups/{name:path}/delete", delete, methods=["POST"]),  # names may have slashes
        Route("/groups/{name:path}", group),
    ]

Rules:

- A GET changes nothing. Every POST is refused where the console only shows; templates ask
  `may_change` before they offer one. A form contains ``{{ ui.csrf_field() }}``, and is sent to a
  route of its own or to that of its page.
- Errors may leave a page: `ClientError`, `UnknownResource`, ``ValueError`` (400) and Starlette's
  ``HTTPException`` become a page with a sentence. Where the form is to be shown again with what was
  typed, catch the error and pass ``form_error(error)`` to ``ui.problem_message``.
- `Page.cluster()` has the metadata of all topics and is the cheaper one for large clusters.
- Lists go through `listing.listing(items, page.query, name_of)`, and `ui.filter_form`, `ui.pager`.
- Templates extend ``base.html`` (blocks: actions, content), with ``macros.html`` as ``ui``. Text is
  escaped, and control characters are shown as escapes; a value that a form sends back is
  ``{{ name|exact }}``, a name in a link ``/groups/{{ name|path }}``. Other filters: number, size,
  when (ms since 1970), counted.
- No style attribute and no inline script: the Content-Security-Policy refuses them. A region
  ``<div id="..." data-refresh="5">`` is renewed every 5 seconds; a form or button with
  ``data-confirm`` asks first; ``<table data-sort>`` sorts the page's rows.
"""
