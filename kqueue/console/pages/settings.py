"""Settings of topics and brokers: values with their source and meaning, and the form of one."""

from __future__ import annotations

from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kqueue.client import Client, ConfigChange, ConfigOperation, ResourceType
from kqueue.client.errors import BrokerRefused
from kqueue.console.listing import listing
from kqueue.console.page import Crumb, Page, form_error
from kqueue.console.problems import UnknownResource
from kqueue.console.setting_rows import SettingView, setting_views
from kqueue.console.templating import path_segment

VALUE_CHARACTERS_MAX = 10_000
UNKNOWN_TOPIC = ("UNKNOWN_TOPIC_OR_PARTITION", "INVALID_TOPIC_EXCEPTION")


class SettingsOwner(NamedTuple):
    """The resource whose settings a page shows. `name`: Kafka's; "": the defaults of all brokers.

    `path`: of its settings. `crumbs`: the pages above them.
    """

    kind: ResourceType
    name: str
    title: str
    path: str
    crumbs: tuple[Crumb, ...]


def _topic_owner(request: Request) -> SettingsOwner:
    name = request.path_params["name"]
    path = f"/topics/{path_segment(name)}"
    crumbs = (Crumb("Topics", "/topics"), Crumb(name, path))
    return SettingsOwner(ResourceType.TOPIC, name, f"topic {name}", f"{path}/settings", crumbs)


def _broker_owner(request: Request) -> SettingsOwner:
    name = str(request.path_params["id"])
    path = f"/brokers/{name}"
    crumbs = (Crumb("Brokers", "/brokers"), Crumb(f"Broker {name}", path))
    return SettingsOwner(ResourceType.BROKER, name, f"broker {name}", f"{path}/settings", crumbs)


def _all_brokers(request: Request) -> SettingsOwner:
    crumbs = (Crumb("Brokers", "/brokers"),)
    return SettingsOwner(ResourceType.BROKER, "", "all brokers", "/brokers/settings", crumbs)


def topic_settings(request: Request) -> Response:
    """Show the settings of a topic."""
    return _settings(request, _topic_owner(request))


def broker_settings(request: Request) -> Response:
    """Show the settings of one broker."""
    return _settings(request, _broker_owner(request))


def all_brokers_settings(request: Request) -> Response:
    """Show what was set at run time for all brokers."""
    return _settings(request, _all_brokers(request))


def _settings(request: Request, owner: SettingsOwner) -> Response:
    page = Page(request)
    with page.client() as client:
        views = _views(client, owner)
    changed = "changed" in page.query
    shown = listing(
        [view for view in views if not changed or view.source != "default"],
        page.query,
        lambda view: f"{view.name} {view.meaning}",
        keep=("changed",),
    )
    return page.render(
        "settings.html",
        title=f"Settings of {owner.title}",
        crumbs=owner.crumbs,
        owner=owner,
        listing=shown,
        changed=changed,
    )


def _views(client: Client, owner: SettingsOwner) -> list[SettingView]:
    if owner.kind is ResourceType.BROKER and owner.name and int(owner.name) not in client.metadata([]).brokers:
        raise UnknownResource(f"There is no {owner.title} that runs.")
    try:
        described = client.configs(owner.kind, [owner.name])
    except BrokerRefused as error:
        if error.code_name in UNKNOWN_TOPIC:
            raise UnknownResource(f"There is no {owner.title}.") from None
        raise
    return setting_views(owner.kind, described[owner.name].values())


def topic_setting(request: Request) -> Response:
    """Show one setting of a topic, or change it."""
    return _setting(request, _topic_owner(request))


def broker_setting(request: Request) -> Response:
    """Show one setting of a broker, or change it."""
    return _setting(request, _broker_owner(request))


def all_brokers_setting(request: Request) -> Response:
    """Show one setting of all brokers, or change it."""
    return _setting(request, _all_brokers(request))


def _setting(request: Request, owner: SettingsOwner) -> Response:
    page = Page(request)
    name = request.path_params["setting"]
    problem = None
    with page.client() as client:
        view = next((view for view in _views(client, owner) if view.name == name), None)
        if view is None:
            raise UnknownResource(f"There is no setting {name!r:.200} of {owner.title}.")
        if request.method == "POST":
            try:
                _change(page, client, owner, view)
            except Exception as error:
                problem = form_error(error)
            else:
                return page.redirect(owner.path)
    return page.render(
        "setting.html",
        title=name,
        crumbs=(*owner.crumbs, Crumb("Settings", owner.path)),
        status=200 if problem is None else problem.status,
        problem=problem,
        owner=owner,
        view=view,
        typed=page.field("value") if problem is not None else None,
    )


def _change(page: Page, client: Client, owner: SettingsOwner, view: SettingView) -> None:
    resource = f"{owner.title}: {view.name}"
    if page.field("act") == "reset":
        with page.change("reset setting", resource):
            client.alter_configs(owner.kind, owner.name, [ConfigChange(ConfigOperation.DELETE, view.name)])
        page.flash(f"Reset {view.name} of {owner.title}.")
        return
    value = page.field("value", characters_max=VALUE_CHARACTERS_MAX)
    with page.change("change setting", resource, {} if view.is_secret else {"value": value}):
        client.alter_configs(owner.kind, owner.name, [ConfigChange(ConfigOperation.SET, view.name, value)])
    page.flash(f"Changed {view.name} of {owner.title}.")


_FORM = ["GET", "POST"]
ROUTES = [
    Route("/topics/{name}/settings", topic_settings),
    Route("/topics/{name}/settings/{setting}", topic_setting, methods=_FORM),
    Route("/brokers/settings", all_brokers_settings),
    Route("/brokers/settings/{setting}", all_brokers_setting, methods=_FORM),
    Route("/brokers/{id:int}/settings", broker_settings),
    Route("/brokers/{id:int}/settings/{setting}", broker_setting, methods=_FORM),
]
