"""`Browser`: what the tests do with Chromium."""

from __future__ import annotations

import importlib.resources
import json
from typing import Any

from selenium.webdriver.chrome.webdriver import WebDriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

WAIT_S = 60
AXE = (importlib.resources.files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8")
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]


class Browser:
    """A window before one console. `address`: of the console."""

    def __init__(self, driver: WebDriver, address: str) -> None:
        self.driver = driver
        self.address = address

    def open(self, path: str) -> None:
        """Open a page of the console, and forget what the browser logged before."""
        self.driver.get_log("browser")
        self.driver.get(self.address + path)

    def prefer(self, theme: str) -> None:
        """Have the system prefer the theme ``light`` or ``dark``."""
        features = [{"name": "prefers-color-scheme", "value": theme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def resize(self, width: int, height: int) -> None:
        """Make the page this large, in pixels; a phone is 390 wide."""
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
        )

    def allow_scripts(self, allowed: bool) -> None:
        """Have pages run their scripts, or not."""
        self.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": not allowed})

    def find(self, selector: str) -> WebElement:
        """Return the first element of a CSS selector."""
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str) -> list[WebElement]:
        """Return all elements of a CSS selector."""
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    @property
    def text(self) -> str:
        """The words that are shown."""
        return " ".join(self.find("body").text.split())

    @property
    def path(self) -> str:
        """The path of the page that is shown."""
        return self.driver.current_url.removeprefix(self.address)

    def wait_for(self, text: str) -> None:
        """Wait until the page shows a text."""
        WebDriverWait(self.driver, WAIT_S, ignored_exceptions=[Exception]).until(lambda _: text in self.text, text)

    def wait_for_element(self, selector: str) -> None:
        """Wait until the page has an element of a CSS selector."""
        wait = WebDriverWait(self.driver, WAIT_S, ignored_exceptions=[Exception])
        wait.until(lambda _: self.find(selector), selector)

    def errors(self) -> list[str]:
        """Return what the browser reported since the page was opened: of scripts and the policy."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]

    def axe(self) -> list[str]:
        """Return the rules of accessibility that the page breaks, each with its elements."""
        self.driver.execute_script(AXE)
        options = json.dumps({"runOnly": {"type": "tag", "values": RULES}})
        result: dict[str, Any] = self.driver.execute_async_script(
            f"axe.run(document, {options}).then(arguments[arguments.length - 1])"
        )
        return [
            f"{rule['id']}: {node['html'][:200]} ({node['failureSummary'][:300]})"
            for rule in result["violations"]
            for node in rule["nodes"]
        ]

    def overflow(self) -> list[str]:
        """Return the elements that make the page wider than the window."""
        return list(
            self.driver.execute_script(
                """
                const width = document.documentElement.clientWidth;
                if (document.documentElement.scrollWidth <= width) return [];
                return [...document.querySelectorAll("body *")]
                    .filter((each) => each.getBoundingClientRect().right > width + 1)
                    .map((each) => each.outerHTML.slice(0, 200));
                """
            )
        )

    def press(self, *keys: str) -> None:
        """Press keys, one after the other."""
        for key in keys:
            ActionChains(self.driver).send_keys(key).perform()

    @property
    def focused(self) -> WebElement:
        """The element that has the focus."""
        return self.driver.switch_to.active_element

    def tab_to(self, text: str) -> None:
        """Press the tabulator until an element with this text or name has the focus."""
        for _ in range(200):
            self.press(Keys.TAB)
            element = self.focused
            if text in (element.text, element.get_attribute("name"), element.accessible_name):
                return
        raise AssertionError(f"no {text!r} is reached by the tabulator")
